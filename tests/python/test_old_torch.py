"""A torch that is too old, or is none, is a sentence that says which one is needed; importing the package never fails for it."""

import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import tachyscope

PACKAGE = pathlib.Path(tachyscope.__file__).parent
pytestmark = pytest.mark.cpu


def registered(*before):
    """Returns what registering with torch says in a process of its own, in which these libraries were opened before."""
    code = f"""
        import ctypes, sys
        import tachyscope
        for library in {[str(b) for b in before]!r}:
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        ours = ctypes.CDLL({str(PACKAGE / "libtachyscope_torch.so")!r})
        ours.tachyscope_register_torch.restype = ctypes.c_char_p
        print(ours.tachyscope_register_torch(b"tachyscope_of_a_test").decode())
        assert "torch" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_torch():
    assert "torch: expected it to be imported first, found no libtorch_cpu.so" in registered()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_an_old_torch(tmp_path):
    """Torch 2.9 has a part of the functions; a library with one of them stands in for it."""
    source, library = tmp_path / "old.c", tmp_path / "libtorch_cpu.so"
    source.write_text("int aoti_torch_library_init_fragment(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", "-o", library, source], check=True)
    assert "torch: expected 2.10 or newer, got one without aoti_torch_library_init_impl" in registered(library)
