"""A tab of a browser, driven over a pipe by the browser's own protocol, with nothing switched on but what is asked for. A driver for tests follows the network,
and then the browser keeps whatever the page has fetched, for whom may ask for it: that would be in each measurement of memory."""

import json
import os
import subprocess
import tempfile
import time

TEN_SECONDS = 10


class Tab:
    """Starts the browser with one tab, of `width` by `height` pixels."""

    def __init__(self, executable, width, height):
        self.profile = tempfile.TemporaryDirectory(prefix="tachyscope-tab-")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        shell = f"exec 3<&{from_us} 4>&{to_us}; exec \"$0\" \"$@\""
        arguments = ["--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "--autoplay-policy=no-user-gesture-required",
                     "--no-first-run", f"--window-size={width},{height}", "about:blank"]
        self.browser = subprocess.Popen(["bash", "-c", shell, executable, *arguments], pass_fds=(from_us, to_us), stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.number, self.unread, self.session = 0, b"", None
        target = self.send("Target.createTarget", url="about:blank", width=width, height=height)["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Performance.enable")

    def send(self, method, system=False, **parameters):
        """Calls a method of the tab, or of the browser if there is no tab yet or `system` is set, and returns its result."""
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters}
        if self.session and not system:
            call["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(call).encode() + b"\0")
        while True:
            while b"\0" not in self.unread:
                some = os.read(self.from_browser, 1 << 16)
                if not some:
                    raise EOFError(f"the browser ended at {method}")
                self.unread += some
            message, self.unread = self.unread.split(b"\0", 1)
            answer = json.loads(message)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def evaluate(self, script):
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, script):
        """Waits until the script is true."""
        end = time.monotonic() + TEN_SECONDS
        while not self.evaluate(f"!!({script})"):
            if time.monotonic() > end:
                raise TimeoutError(f"it is still not true after {TEN_SECONDS} s: {script}")
            time.sleep(0.05)

    def goto(self, address):
        self.send("Page.navigate", url=address)

    def press_space(self):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32, text=" " if kind == "keyDown" else "")

    def close(self):
        self.send("Browser.close", system=True)
        self.browser.wait(TEN_SECONDS)
        os.close(self.to_browser)
        os.close(self.from_browser)
        self.profile.cleanup()
