//! Several answers that are waited for at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// An answer that is on its way.
pub type Coming<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An answer that may not be there yet.
enum Waiting<T> {
    Asked(Coming<T>),
    Answered(T),
}

/// Waits until all are there. They are begun in their order, which is also the order of what they say.
pub async fn all<T>(asked: impl IntoIterator<Item = Coming<T>>) -> Vec<T> {
    let mut waiting: Vec<Waiting<T>> = asked.into_iter().map(Waiting::Asked).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for one in &mut waiting {
            if let Waiting::Asked(asked) = one {
                match asked.as_mut().poll(context) {
                    Poll::Ready(answer) => *one = Waiting::Answered(answer),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let answered = |one| match one {
        Waiting::Answered(answer) => Some(answer),
        Waiting::Asked(_) => None,
    };
    waiting.into_iter().filter_map(answered).collect()
}
