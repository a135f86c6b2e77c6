//! Calls of an event loop on a line, one behind the other.
//!
//! The thread of an event loop must not wait, and waking another one takes longer than to write. So it writes the calls of all tasks that are ready at
//! once, has the loop watch the line, and takes what came when something did. It has the line as long as a call is under way on it, and as everybody
//! who has one only while nothing is under way on the connection of all others. If no answer comes for long, a task waits for the rest of them.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::line::{Line, stalled};
use super::queue::Answer;
use super::stream::Socket;
use super::{CallError, Node, greet, life, link};
use crate::redis::resp::{Command, Value};
use crate::store::StoreError;

/// The lanes of one event loop: one for each server that it asks.
#[derive(Debug, Default)]
pub struct Lanes(Vec<Arc<Lane>>);

/// The calls on one line.
#[derive(Debug)]
struct Lane {
    node: Arc<Node>,
    /// To be given back with the line.
    epoch: u64,
    calls: Mutex<Calls>,
}

#[derive(Debug)]
struct Calls {
    /// `None` if it was given back or left to a task, or broke.
    line: Option<Line>,
    is_watched: bool,
    /// What is to be written.
    out: Vec<u8>,
    /// Bytes that were written since the beginning.
    written: u64,
    /// In the order of their answers.
    waiting: VecDeque<Call>,
    /// The number of the first of them, and how many were answered, or never will be.
    first: u64,
    answered: usize,
}

#[derive(Debug)]
struct Call {
    /// Where it begins among all bytes of the lane.
    begin: u64,
    fate: Fate,
}

#[derive(Debug)]
enum Fate {
    /// Somebody will look for the answer.
    Looked,
    /// A task waits for it.
    Awaited(oneshot::Sender<Answer>),
    /// It is there.
    Here(Answer),
    /// Nobody wants it, or who wanted it has it.
    Gone,
}

/// A call that will be sent, or was, and that no thread waits for.
#[derive(Debug)]
pub struct UnderWay {
    lane: Arc<Lane>,
    number: u64,
}

impl Lanes {
    /// Adds a call, if the event loop has the line of its server or can have it. It is sent by the next [`flush`](Self::flush).
    pub fn push(&mut self, node: &Arc<Node>, command: &Command) -> Option<UnderWay> {
        if let Some(lane) = self.0.iter().find(|lane| Arc::ptr_eq(&lane.node, node) && lane.has_line()) {
            return node.queue.is_idle().then(|| lane.push(command));
        }
        let (free, epoch) = node.take_line()?;
        let calls = Calls {
            line: Some(free),
            is_watched: false,
            out: Vec::new(),
            written: 0,
            waiting: VecDeque::new(),
            first: 0,
            answered: 0,
        };
        let lane = Arc::new(Lane { node: Arc::clone(node), epoch, calls: Mutex::new(calls) });
        self.0.push(Arc::clone(&lane));
        Some(lane.push(command))
    }

    /// Sends what was added. `watch` begins to watch a line, and says whether it can. If a line is gone, and calls with it, this is `false`: nothing
    /// will come that a loop could watch.
    pub fn flush(&mut self, watch: impl Fn(Socket<'_>) -> bool) -> bool {
        self.0.iter().for_each(|lane| lane.flush(&watch));
        self.0.iter().all(|lane| lane.has_line())
    }

    /// Takes what came.
    pub fn receive(&mut self) {
        self.0.iter().for_each(|lane| lane.receive());
    }

    /// Gives back lines on which nothing is under way any more. `forget` ends watching one.
    pub fn rest(&mut self, forget: impl Fn(Socket<'_>)) {
        self.0.retain(|lane| lane.is_busy(&forget));
    }

    /// Has tasks wait for all that is under way.
    pub fn leave(&mut self, forget: impl Fn(Socket<'_>)) {
        for lane in self.0.drain(..) {
            let calls = lane.calls.lock();
            calls.line.iter().for_each(|line| forget(line.socket()));
            lane.hand_over(calls);
        }
    }

    /// Whether all calls go to one server, so that their answers come in their order.
    pub fn is_single(&self) -> bool {
        self.0.len() < 2
    }
}

impl Lane {
    fn has_line(&self) -> bool {
        self.calls.lock().line.is_some()
    }

    fn push(self: &Arc<Self>, command: &Command) -> UnderWay {
        let mut calls = self.calls.lock();
        let (begin, number) = (calls.written + calls.out.len() as u64, calls.first + calls.waiting.len() as u64);
        calls.out.extend_from_slice(command.as_bytes());
        calls.waiting.push_back(Call { begin, fate: Fate::Looked });
        UnderWay { lane: Arc::clone(self), number }
    }

    fn flush(&self, watch: impl Fn(Socket<'_>) -> bool) {
        let mut calls = self.calls.lock();
        let is_first = calls.waiting.get(calls.answered).is_none_or(|call| call.begin >= calls.written);
        let Calls { line: Some(line), out, is_watched, .. } = &mut *calls else { return };
        if out.is_empty() {
            return;
        }
        // Only a line that nothing is under way on can be seen to be silent.
        if is_first && !line.is_silent() {
            return self.fail(&mut calls, link::hung_up());
        }
        *is_watched = *is_watched || watch(line.socket());
        if !*is_watched {
            return self.fail(&mut calls, StoreError::unavailable("the line cannot be watched"));
        }
        self.write(&mut calls);
    }

    /// Lets the line take what it will. If it does not take all, it is tried again when something came, or by a task.
    fn write(&self, calls: &mut Calls) {
        let Calls { line: Some(line), out, written, .. } = calls else { return };
        match line.write(out) {
            Ok(length) => {
                *written += length as u64;
                out.drain(..length);
            }
            Err(why) => self.fail(calls, why),
        }
    }

    fn receive(&self) {
        let mut calls = self.calls.lock();
        loop {
            let Some(line) = &mut calls.line else { return };
            match line.receive() {
                Ok(Some(value)) => {
                    if let Err(why) = calls.answer(value) {
                        return self.fail(&mut calls, why);
                    }
                }
                Ok(None) => break,
                Err(why) => return self.fail(&mut calls, why),
            }
        }
        if !calls.out.is_empty() {
            self.write(&mut calls);
        }
    }

    /// The line is gone: all that has no answer learns whether the server can have seen it.
    fn fail(&self, calls: &mut Calls, why: StoreError) {
        if calls.line.take().is_some() {
            self.node.queue.put_line(None, self.epoch);
        }
        let why = life::at(&self.node.address, why);
        let (answered, written) = (calls.answered, calls.written);
        for call in calls.waiting.iter_mut().skip(answered) {
            let error = if call.begin < written { CallError::Lost } else { CallError::NotSent };
            call.fate.be(Err(error(why.clone())));
        }
        calls.answered = calls.waiting.len();
    }

    /// Whether it has a line still.
    fn is_busy(&self, forget: impl Fn(Socket<'_>)) -> bool {
        let mut calls = self.calls.lock();
        if calls.answered == calls.waiting.len()
            && let Some(line) = calls.line.take()
        {
            if calls.is_watched {
                forget(line.socket());
            }
            self.node.queue.put_line(Some(line), self.epoch);
        }
        calls.line.is_some()
    }

    /// Has a task wait for what is not answered yet, unless one does.
    fn hand_over(self: &Arc<Self>, mut calls: MutexGuard<'_, Calls>) {
        let Some(line) = calls.line.take() else { return };
        let out = std::mem::take(&mut calls.out);
        // From here on nobody knows what was written.
        calls.written += out.len() as u64;
        drop(calls);
        self.node.queue.put_line(None, self.epoch);
        self.node.io.spawn(Arc::clone(self).wait(line, out));
    }

    async fn wait(self: Arc<Self>, line: Line, out: Vec<u8>) {
        let limit = self.node.login.stall_limit;
        let rest = async {
            let (mut stream, mut parser) = line.into_stream()?;
            greet::send(&mut stream, &out, false).await?;
            while self.is_waiting() {
                let value = greet::receive(&mut stream, &mut parser, false).await?;
                self.calls.lock().answer(value)?;
            }
            Ok(())
        };
        if let Err(why) = timeout(limit, rest).await.unwrap_or_else(|_| Err(stalled(limit))) {
            self.fail(&mut self.calls.lock(), why);
        }
    }

    fn is_waiting(&self) -> bool {
        let calls = self.calls.lock();
        calls.answered < calls.waiting.len()
    }
}

impl Calls {
    /// Gives an answer to the first call that has none.
    fn answer(&mut self, value: Value) -> Result<(), StoreError> {
        let Some(call) = self.waiting.get_mut(self.answered) else {
            return Err(StoreError::protocol("a reply that nobody asked for"));
        };
        call.fate.be(Ok(value));
        self.answered += 1;
        self.trim();
        Ok(())
    }

    fn call(&mut self, number: u64) -> Option<&mut Call> {
        self.waiting.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Forgets calls that have ended.
    fn trim(&mut self) {
        while self.answered > 0 && matches!(self.waiting.front(), Some(Call { fate: Fate::Gone, .. })) {
            self.waiting.pop_front();
            self.answered -= 1;
            self.first += 1;
        }
    }
}

impl Fate {
    /// There is an answer.
    fn be(&mut self, answer: Answer) {
        *self = match std::mem::replace(self, Self::Gone) {
            Self::Looked => Self::Here(answer),
            Self::Awaited(reply) => {
                // Who does not wait any more need not know.
                let _ = reply.send(answer);
                Self::Gone
            }
            fate => fate,
        };
    }
}

impl UnderWay {
    /// Whether there is an answer to [look](Self::look) for.
    pub fn is_answered(&self) -> bool {
        self.lane.calls.lock().call(self.number).is_some_and(|call| matches!(call.fate, Fate::Here(_)))
    }

    /// The answer, or how it was lost; `None` if it has not come yet. It comes once.
    pub fn look(&mut self) -> Option<Answer> {
        let mut calls = self.lane.calls.lock();
        let call = calls.call(self.number)?;
        match std::mem::replace(&mut call.fate, Fate::Gone) {
            Fate::Here(answer) => {
                calls.trim();
                Some(answer)
            }
            fate => {
                call.fate = fate;
                None
            }
        }
    }

    /// Has a task wait for the answer instead.
    pub fn leave(self) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        // Under one lock: an answer that comes between a look and this would be lost.
        let mut calls = self.lane.calls.lock();
        if let Some(call) = calls.call(self.number) {
            if let Fate::Here(here) = std::mem::replace(&mut call.fate, Fate::Gone) {
                // The other end is right here.
                let _ = reply.send(here);
                calls.trim();
                return answer;
            }
            call.fate = Fate::Awaited(reply);
        }
        self.lane.hand_over(calls);
        answer
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut calls = self.lane.calls.lock();
        if let Some(call) = calls.call(self.number).filter(|call| !matches!(call.fate, Fate::Awaited(_))) {
            call.fate = Fate::Gone;
        }
        calls.trim();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.calls.get_mut().line.take().is_some() {
            self.node.queue.put_line(None, self.epoch);
        }
    }
}
