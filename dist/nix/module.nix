# SPDX-License-Identifier: GPL-2.0-only
#
# For NixOS: imports = [ .../dist/nix/module.nix ]; hardware.hwtimer.enable = true; and
# users.users.NAME.extraGroups = [ "hwtimer" ]. Not tested on NixOS.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  hwtimer = import ./default.nix { inherit pkgs; };
in
{
  options.hardware.hwtimer.enable = lib.mkEnableOption "the kernel module hwtimer";

  config = lib.mkIf config.hardware.hwtimer.enable {
    boot.extraModulePackages = [
      (import ./default.nix {
        inherit pkgs;
        inherit (config.boot.kernelPackages) kernel;
      })
    ];
    boot.kernelModules = [ "hwtimer" ];
    services.udev.packages = [ hwtimer ];
    users.groups.hwtimer = { };
    environment.systemPackages = [ hwtimer ];
  };
}
