# SPDX-License-Identifier: Apache-2.0
"""asyncio in cells: one event loop, which lives as long as the interpreter.

A cell that awaits runs it until the cell is done. Between cells it runs while the driver waits for the next frame, if
there is anything for it to do, so tasks continue as in a notebook: they are awaited or cancelled by a later cell, or
print meanwhile. A cell that does not await may make tasks, too. While nothing is to be done, the driver waits for the
frame and for the loop's own descriptors at once; a session without a loop knows nothing of all this.
"""
import os
import sys


class EventLoop:
    def __init__(self, driver):
        self.driver = driver
        self.loop = None
        self.interrupted = None  # what hit the running cell's coroutine
        self.poll = None         # both the next frame and the loop

    def set(self):
        """The loop, made with its first use; user code may have closed it, or put another into its place."""
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            self._watch()
        asyncio.set_event_loop(self.loop)
        return self.loop

    def _watch(self):
        import select
        poll = select.poll()
        try:
            poll.register(self.loop._selector.fileno(), select.POLLIN)
        except (AttributeError, OSError, ValueError):  # another kind of loop: run it always
            self.poll = None
            return
        poll.register(self.driver.channel.fd, select.POLLIN)
        self.poll = poll.poll

    # In a cell

    def begin(self, code):
        """asyncio.get_event_loop() is to find it in any cell."""
        self.interrupted = None
        if self.loop is not None or "asyncio" in code:
            self.set()

    def run(self, coroutine):
        """Run a cell's coroutine to its end, and all tasks meanwhile."""
        from asyncio import CancelledError
        task = self.set().create_task(coroutine)
        while True:
            try:
                return self.loop.run_until_complete(task)
            except KeyboardInterrupt as e:
                # It hit the loop or another task. The cell must not continue when the loop runs next.
                if task.done():
                    raise
                self.interrupted = e
                task.cancel()
            except CancelledError:
                if self.interrupted is None:
                    raise
                raise KeyboardInterrupt from None

    def own_cancellation(self, value):
        """A cell that was cancelled because of an interrupt ends with KeyboardInterrupt."""
        if self.interrupted is not None and type(value).__name__ == "CancelledError":
            return KeyboardInterrupt().with_traceback(value.__traceback__)
        return value

    def let_cells_make_tasks(self, asyncio):
        """asyncio.create_task() wants a loop that runs: between two statements of a cell, ours is as good as that."""
        create_task, running = asyncio.create_task, asyncio._get_running_loop

        def make(coro, **kwargs):
            if running() is None and self.driver.interrupts.is_main() and not self.driver.channel.child:
                return self.set().create_task(coro, **kwargs)
            return create_task(coro, **kwargs)

        make.__name__ = make.__qualname__ = "create_task"
        make.__doc__, make.__module__, make.__wrapped__ = create_task.__doc__, create_task.__module__, create_task
        asyncio.create_task = make

    # Between cells

    def wait(self):
        """Until a frame is there, or a part of one."""
        channel, loop = self.driver.channel, self.loop
        while not (loop.is_closed() or loop.is_running() or channel.waiting()):
            if self.poll is None or loop._ready or loop._scheduled or \
                    channel.fd not in [fd for fd, _ in self.poll()]:
                self._run(loop)

    def _run(self, loop):
        """Run the loop until a frame is there. An interrupt is for the cell that has come, not for the tasks; but one
        that does not give way must not keep that cell waiting."""
        driver = self.driver
        loop.add_reader(driver.channel.fd, loop.stop)
        driver.interrupts.background = driver.channel.waiting
        try:
            loop.run_forever()
        except KeyboardInterrupt:
            driver.interrupts.due = True
        except SystemExit as e:
            driver.exit_code(e)
        finally:
            driver.interrupts.background = None
            if not loop.is_closed():
                loop.remove_reader(driver.channel.fd)
