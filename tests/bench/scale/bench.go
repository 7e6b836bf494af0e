package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// bench is a web's unit with all that it needs.
type bench struct {
	dir      string
	world    *sandbox.World
	database *sandbox.Postgres
	server   *jujutest.Server
	current  *jujutest.Context
	tsa      *jujutest.Relation
}

func newBench() (b *bench, err error) {
	b = &bench{}
	if b.dir, err = os.MkdirTemp("", "scale-bench-"); err != nil {
		return nil, err
	}
	charm := filepath.Join(b.dir, "charm")
	if err := os.MkdirAll(charm+"/bin", 0o755); err != nil {
		return b, err
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", charm+"/dispatch", "github.com/fourdollars/concourse-ci-machine/src/dispatch")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return b, fmt.Errorf("cannot build dispatch: %w\n%s", err, out)
	}
	// No hook here runs the charm's other programs.
	for _, name := range hosttest.Programs {
		if err := os.WriteFile(charm+"/bin/"+name, nil, 0o755); err != nil {
			return b, err
		}
	}
	options, err := os.ReadFile("config.yaml")
	if err != nil {
		return b, fmt.Errorf("run it in the project's folder (make bench does): %w", err)
	}
	if err := os.WriteFile(charm+"/config.yaml", options, 0o644); err != nil {
		return b, err
	}
	exe, err := os.Executable()
	if err != nil {
		return b, err
	}
	b.world, err = sandbox.New(sandbox.Options{Host: "internal/testutil/hosttest/hosts/no-gpu", Charm: charm, Exe: exe, Unit: "web/0"})
	if err != nil {
		return b, err
	}
	if b.database, err = sandbox.NewPostgres(); err != nil {
		return b, err
	}
	b.server, err = jujutest.Serve(filepath.Join(b.dir, "juju.sock"), func() *jujutest.Context { return b.current })
	return b, err
}

func (b *bench) close() {
	if b.server != nil {
		b.server.Close()
	}
	if b.database != nil {
		b.database.Close()
	}
	if b.world != nil {
		b.world.Close()
	}
	os.RemoveAll(b.dir)
}

// converge makes a web that has all it wants but workers.
func (b *bench) converge() error {
	m := b.world.Model
	tarball := filepath.Join(b.dir, "concourse.tgz")
	if err := sandbox.StandInRelease(tarball, "8.2.5"); err != nil {
		return err
	}
	m.Resources = map[string]string{"concourse-release": tarball}
	for name, value := range map[string]any{"mode": "web", "web-port": b.world.Machine.WebPort(), "enable-metrics": false} {
		if err := m.SetConfig(name, value); err != nil {
			return err
		}
	}
	m.Relate(1, "peers", "web")
	db := m.Relate(4, "postgresql", "postgresql")
	db.Units = map[string]map[string]string{"postgresql/0": {}}
	db.AppData = map[string]string{"database": "concourse", "endpoints": b.database.Address(), "secret-user": "secret:d2user0000000000000g"}
	m.Secrets = append(m.Secrets, &jujutest.Secret{ID: "d2user0000000000000g", Owner: "postgresql", Granted: true,
		Revisions: []map[string]string{{"username": "relation_4", "password": "pw"}}})
	b.tsa = m.Relate(7, "tsa", "worker")
	for _, hook := range []string{"install", "config-changed", "start", "update-status"} {
		if _, err := b.hook(jujutest.Hook(hook)); err != nil {
			return err
		}
	}
	if s := m.Status(); s.Status != "active" {
		return fmt.Errorf("the web did not converge: %+v", s)
	}
	return nil
}
