# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""The extension contains libhwtimer, so that it needs none that is installed."""
import pathlib
import re

from setuptools import Extension, setup

TOP = pathlib.Path("..")
VERSION = re.search(r'^PACKAGE_VERSION="(.*)"', (TOP / "dkms.conf").read_text(), re.M)[1]
LIBRARY = TOP / "lib"

setup(version=VERSION, py_modules=["hwtimer"], ext_modules=[Extension(
    "_hwtimer",
    ["_hwtimer.c", *map(str, sorted(LIBRARY.glob("*.c")))],
    depends=[str(path) for pattern in ("lib/*.h", "hwtimer_wheel.c", "core/hwtimer_wheel*.h",
                                       "uapi/linux/hwtimer.h") for path in TOP.glob(pattern)],
    include_dirs=[str(LIBRARY), str(TOP / "uapi")],
    libraries=["m"],
    extra_compile_args=["-std=gnu11", "-Wextra", "-Wno-missing-field-initializers",
                        "-Wno-cast-function-type", "-fvisibility=hidden"])])
