# SPDX-License-Identifier: GPL-2.0-only
#
# hwtimer for Nix: the library, hwtimerctl and the files for udev and systemd or, for a kernel, the
# module. module.nix adds both to NixOS. Not tested with Nixpkgs: scripts/checks/packaging only
# parses it.
{
  pkgs ? import <nixpkgs> { },
  kernel ? null,
}:
let
  inherit (pkgs) lib stdenv;
  version = builtins.head (
    builtins.match ".*\nPACKAGE_VERSION=\"([^\"]*)\".*" (builtins.readFile ../../dkms.conf)
  );
  src = lib.cleanSource ../..;
  meta = {
    description = "Timing wheel for millions of approximate timeouts";
    license = lib.licenses.gpl2Only;
    platforms = lib.platforms.linux;
  };
in
if kernel == null then
  stdenv.mkDerivation {
    pname = "hwtimer";
    inherit version src;
    buildFlags = [ "lib" "tools" ];
    installFlags = [ "PREFIX=$(out)" ];
    installTargets = [ "install-lib" "install-tools" "install-conf" ];
    # NixOS creates the group: see module.nix.
    makeFlags = [ "SYSUSERS=true" ];
    meta = meta // {
      license = with lib.licenses; [ gpl2Only lgpl21Plus mit ];
    };
  }
else
  stdenv.mkDerivation {
    pname = "hwtimer-module";
    version = "${version}-${kernel.modDirVersion}";
    inherit src meta;
    nativeBuildInputs = kernel.moduleBuildDependencies;
    hardeningDisable = [ "pic" ];
    makeFlags = [
      "KDIR=${kernel.dev}/lib/modules/${kernel.modDirVersion}/build"
      "INSTALL_MOD_PATH=$(out)"
    ];
    installTargets = [ "modules_install" ];
  }
