"""conan create tests/install/conan builds this source tree."""
import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class Attune(ConanFile):
    name = "attune"
    description = "Tensors, reverse-mode differentiation and attention models on the CPU"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}

    def _tree(self):
        return pathlib.Path(self.recipe_folder).resolve().parents[2]

    def set_version(self):
        self.version = re.search(r"\n  version: '(.*)'", (self._tree() / "meson.build").read_text())[1]

    def export_sources(self):
        for folder in ("tensor", "autograd", "nn", "models"):
            copy(self, f"{folder}/*", self._tree(), self.export_sources_folder)
        for file in ("meson.build", "meson_options.txt", "LICENSE"):
            copy(self, file, self._tree(), self.export_sources_folder)

    def requirements(self):
        self.requires("fmt/[>=9 <12]")
        self.requires("highway/[>=1.0.3 <2]")
        self.requires("nlohmann_json/[>=3.11 <4]")
        self.requires("xxhash/[>=0.8.1 <1]")

    def build_requirements(self):
        self.tool_requires("meson/[>=1.0.1 <2]")
        self.tool_requires("pkgconf/[>=2 <3]")

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        basic_layout(self)

    def generate(self):
        PkgConfigDeps(self).generate()
        toolchain = MesonToolchain(self)
        for option in ("examples", "tests", "bench", "sentencepiece", "mpi"):
            toolchain.project_options[option] = "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")
        Meson(self).install()

    def package_info(self):
        self.cpp_info.libs = ["attune"]
        if self.settings.os == "Linux":
            self.cpp_info.system_libs = ["m", "pthread"]
