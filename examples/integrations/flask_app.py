"""
Flask with limits for the application, a blueprint and single views.

`flask --app flask_app run` serves it; here it is called without a server.
"""

from flask import Blueprint, Flask, Request, Response

from tidegate.integrations.flask import RequestDenied, Tidegate, exempt, limit, limit_blueprint

app = Flask(__name__)
app.config["TIDEGATE_QUOTAS"] = "100/minute"
Tidegate(app)


@app.get("/")
def index() -> str:
    return "hello"


@app.get("/healthz")
@exempt
def healthz() -> str:
    return "well"


def api_key(request: Request) -> str | None:
    return request.headers.get("X-Api-Key")


@app.get("/search")
@limit("2/minute", key=api_key)
async def search() -> str:
    return "found"


reports = Blueprint("reports", __name__, url_prefix="/reports")
limit_blueprint(reports, "1 concurrent")


@reports.get("/daily")
def daily() -> Response:
    return Response(f"line {number}\n" for number in range(3))


app.register_blueprint(reports)


@app.errorhandler(RequestDenied)
def slow_down(error: RequestDenied) -> tuple[dict[str, object], int]:
    return {"error": "slow down", "seconds": error.retry_after}, 429


def main() -> None:
    client = app.test_client()
    for path in ("/", "/healthz", "/reports/daily"):
        answer = client.get(path)
        print(f"{path:<15} {answer.status_code}  {answer.headers.get('RateLimit')}")
    searches = [client.get("/search", headers={"X-Api-Key": "abc"}) for _ in range(3)]
    for answer in searches:
        print(f"/search         {answer.status_code}  {answer.headers['RateLimit']}  {answer.text.strip()}")
    assert [answer.status_code for answer in searches] == [200, 200, 429]
    assert searches[2].get_json()["error"] == "slow down"
    assert client.get("/search", headers={"X-Api-Key": "def"}).status_code == 200


if __name__ == "__main__":
    main()
