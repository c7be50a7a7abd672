#!/usr/bin/env bash
# A Vulkan driver for the GPU tests: on a machine without one, Debian's software driver (lavapipe) is installed.
set -euo pipefail

packages=(mesa-vulkan-drivers libvulkan1)

has_driver() {
    [[ -n ${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-} ]] && return 0
    local folder
    for folder in /usr/share/vulkan/icd.d /etc/vulkan/icd.d /usr/local/share/vulkan/icd.d; do
        compgen -G "$folder/*.json" >/dev/null && return 0
    done
    return 1
}

has_loader() {
    # No pipe: a reader that stops early would fail it.
    local known
    known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p)
    [[ $known == *libvulkan.so.1* ]]
}

# Other platforms than Linux bring their own (Metal, Direct3D 12).
[[ $(uname -s) == Linux ]] || exit 0
if has_driver && has_loader; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "gpu-setup: no Vulkan driver is here and no apt-get to install one; install ${packages[*]} or your card's driver" >&2
    exit 1
fi
as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo -n)
echo "gpu-setup: installing ${packages[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
