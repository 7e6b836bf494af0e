//go:build e2e

package packages

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What lintian may find has its reason in the overrides of tools/packages.
func TestLintianFindsNothingInThePackages(t *testing.T) {
	need(t)
	t.Parallel()
	dir := pack(t, checkout(t), "gzip") // Debian's lintian of 12 cannot read zstd
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	require.NoError(t, err)
	require.Len(t, debs, 3)
	out, err := exec.Command("lintian", append([]string{"--allow-root", "--fail-on", "error,warning"}, debs...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out), "also no override that is unused")
}

// Each program that people type has pages and completions of three shells.
func TestProgramsHavePagesAndCompletions(t *testing.T) {
	need(t)
	t.Parallel()
	got := inside(t, "mi210x4", `
ln -s /proc/self/fd /dev/fd # bash needs it for <()
cat >/tmp/complete.zsh <<'Z'
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "autoload -U compinit; compinit -u -D; echo re''ady"
zpty -r z out "*ready*"
zpty -w -n z "$1"$'\t'
zpty -r z out "*$2*" && print $2
Z
dpkg --install --force-depends /in/*.deb >/out/install 2>&1
complete() { # PROGRAM BEGUN WHOLE
	PROGRAM=$1 bash --norc -i -c '
		. /usr/share/bash-completion/bash_completion
		. /usr/share/bash-completion/completions/$PROGRAM
		COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		__start_$PROGRAM
		echo ${COMPREPLY[@]}' bash $1 $2 >>/out/bash
	timeout 60 zsh -f /tmp/complete.zsh "$1 $2" $3 >>/out/zsh
	fish -c "complete -C '$1 $2'" >>/out/fish
	for page in /usr/share/man/man1/$1*.1.gz; do man --local-file --warnings $page >/dev/null 2>>/out/errors; done
	man $1 | head -n 1 >>/out/man
}
complete gpukit "runtime con" configure
complete concourse-ci-machine "gpu qua" quarantine
complete rocm-exporter ser serve
man rocm-gpu-exporter | head -n 1 >>/out/man
man runc-amd-wrapper | head -n 1 >>/out/man
`)
	for _, shell := range []string{"bash", "fish", "zsh"} {
		require.Equal(t, "configure\nquarantine\nserve\n", got[shell], shell)
	}
	require.Empty(t, got["errors"])
	for _, page := range []string{"GPUKIT(1)", "CONCOURSE-CI-MACHINE(1)", "ROCM-EXPORTER(1)", "ROCM-GPU-EXPORTER(8)", "RUNC-AMD-WRAPPER(8)"} {
		require.Contains(t, got["man"], page)
	}
}
