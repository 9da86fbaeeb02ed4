"""A store that counts: the toy paper's scheme for what schemes count themselves."""

from .efactory.saw import Saw


class CountingSaw(Saw, name="counting-saw"):
    """SAW whose clients count 2 hops a PUT and 1 a GET, and whose server counts and gauges the calls that it serves."""

    class Client(Saw.Client):
        def perform(self, session, request):
            session.connection.thread.count("hops", 2 if request.step.f == "put" else 1)
            return (yield from super().perform(session, request))

    class Server(Saw.Server):
        def begin(self):
            super().begin()
            self.gauge("calls", 0)
            self.calls = 0

        def on_persist(self, thread, request):
            self.calls += 1
            self.count("persists")
            self.gauge("calls", self.calls)
            return (yield from super().on_persist(thread, request))
