//go:build controller

package controller

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	suites "github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// Juju's programs, without the clouds that nothing here needs. With Go's own
// resolver and users the agent, which links C, shares nearly all with the others,
// which do not.
const (
	jujuTags  = "minimal,provider_lxd,provider_manual,notest,netgo,osusergo"
	agentTags = jujuTags + ",dqlite,libsqlite3"
	jujuPath  = "github.com/juju/juju/cmd/"
)

var jujuPrograms = []string{"juju", "jujuc", "jujuagentd"}

// buildAgent is run in the machines' own system, as the agent links dqlite.
const buildAgent = `export DEBIAN_FRONTEND=noninteractive
echo "deb $MIRROR ` + suite + ` main" >/etc/apt/sources.list
echo "deb [check-valid-until=no] $MIRROR sid main" >/etc/apt/sources.list.d/sid.list
printf 'Package: *\nPin: release n=sid\nPin-Priority: 1\n' >/etc/apt/preferences.d/sid
apt-get update -q
apt-get install -qy --no-install-recommends gcc libc6-dev libuv1-dev liblz4-dev libsqlite3-dev pkg-config libdqlite-dev/sid
cd /module
PATH=$PATH:/goroot/bin CGO_ENABLED=1 GOPROXY=off GOTOOLCHAIN=local GOFLAGS= GOROOT=/goroot GOMODCACHE=/modules GOCACHE=/gocache \
	CGO_LDFLAGS="-ldqlite -luv -llz4 -lsqlite3 -Wl,-z,stack-size=1048576" \
	go build -buildvcs=false -trimpath -ldflags "-s -w" -tags ` + agentTags + ` -o /out/ ` + jujuPath + `jujuagentd
`

// programsFile is the name of their tar in the cache.
func programsFile() (string, error) {
	return suites.ToolsFile("juju", buildAgent, jujuTags)
}

// programs is the tar with juju, jujuc and jujuagentd, built if the cache has none. system
// is the machines'.
func programs(ctx context.Context, system string) (string, error) {
	name, err := programsFile()
	if err != nil {
		return "", err
	}
	return debian.Cached(name, func(out *os.File) error {
		dir, err := os.MkdirTemp("", "juju-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := goIn(ctx, "juju", nil, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-tags", jujuTags, "-o", dir+"/",
			jujuPath+"juju", jujuPath+"jujuc"); err != nil {
			return err
		}
		// What is downloaded here needs no certificates there.
		if err := goIn(ctx, "juju", []string{"CGO_ENABLED=1"}, "list", "-deps", "-tags", agentTags, jujuPath+"jujuagentd"); err != nil {
			return err
		}
		folders, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
		if err != nil {
			return err
		}
		at := strings.Fields(string(folders))
		module, err := filepath.Abs("juju")
		if err != nil {
			return err
		}
		if err := debian.Inside(ctx, system, buildAgent, nil, at[0]+":/goroot", at[1]+":/modules", at[2]+":/gocache", module+":/module", dir+":/out"); err != nil {
			return fmt.Errorf("cannot build Juju's agent: %w", err)
		}
		return debian.Pack(ctx, out, dir, jujuPrograms...)
	})
}

// goIn runs the go command in a folder.
func goIn(ctx context.Context, dir string, env []string, args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Env = dir, append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("cannot run go %s: %w: %s", strings.Join(args, " "), err, said.Bytes())
	}
	return nil
}
