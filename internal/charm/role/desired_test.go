package role

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// badKey blocks a plan until the operator removes it.
type badKey struct{}

func (badKey) Error() string                          { return "bad key" }
func (badKey) Remedy(wellknown.Commands) status.Cause { return status.Block("replace the key") }

// The service of the Python charm runs on rather than end before its successor can run.
func TestServiceIsNotTakenOverWithAnObstacle(t *testing.T) {
	why := []status.Cause{status.Wait("no web")}
	runsOn := status.Wait("the Python charm's worker runs on until then")
	for name, c := range map[string]struct {
		takesOver, running, able bool
		refused                  []error
		want                     []status.Cause
	}{
		"it would not run again":        {true, true, false, nil, []status.Cause{why[0], runsOn}},
		"it will run again":             {true, true, true, nil, nil},
		"it is stopped":                 {true, false, false, nil, nil},
		"it is this charm's":            {false, true, false, nil, nil},
		"an invalid key":                {true, true, true, []error{badKey{}}, []status.Cause{status.Block("replace the key"), runsOn}},
		"the key comes first":           {true, true, false, []error{badKey{}}, []status.Cause{status.Block("replace the key"), runsOn}},
		"an invalid key, it is stopped": {true, false, false, []error{badKey{}}, []status.Cause{status.Block("replace the key")}},
		"an error without a fix":        {true, true, true, []error{errors.New("x")}, nil},
	} {
		o := Observed{TakesOver: c.takesOver, Refused: c.refused, Units: map[string]resource.UnitState{concourse.Unit: {Active: "inactive"}}}
		if c.running {
			o.Units[concourse.Unit] = resource.UnitState{Active: "active"}
		}
		require.Equal(t, c.want, Refusals(o, c.able, why), name)
	}
	o := Observed{TakesOver: true, Half: model.WebRole, Units: map[string]resource.UnitState{concourse.WebUnit: {Active: "active"}}}
	require.Equal(t, "the Python charm's web runs on until then", Refusals(o, false, why)[1].Text)
}

func TestUnitIsStartedUnlessItStartsAlready(t *testing.T) {
	for active, want := range map[string]bool{"active": false, "activating": false, "inactive": true, "failed": true, "": true} {
		require.Equal(t, want, Starts(resource.UnitState{Active: active}), active)
	}
}

// One option of the operator replaces all of the model's proxies, so that the two are not mixed.
func TestProxiesAreTheOperatorsOrTheModels(t *testing.T) {
	facts := model.Facts{Proxy: juju.Proxy{HTTP: "http://m:1", HTTPS: "http://m:2", NoProxy: "m"}}
	require.Equal(t, resource.Proxies{HTTP: "http://m:1", HTTPS: "http://m:2", No: "m"}, ProxyOf(facts, config.Config{}))
	require.Equal(t, resource.Proxies{No: "o"}, ProxyOf(facts, config.Config{NoProxy: "o"}))
	require.Equal(t, resource.Proxies{HTTP: "http://o:1", HTTPS: "http://o:2"},
		ProxyOf(facts, config.Config{HTTPProxy: "http://o:1", HTTPSProxy: "http://o:2"}))
}

// Juju has no resource that is optional, so an empty file is none.
func TestEmptyResourceIsNoRelease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "release.tgz")
	require.False(t, Attached(file))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.False(t, Attached(file))
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.True(t, Attached(file))
}

func TestMissingFileIsEmpty(t *testing.T) {
	r := hosttest.Root(t)
	hosttest.Put(t, r, "/etc/key", "x\n")
	for file, want := range map[string]string{"/etc/key": "x\n", "/etc/none": "", "/none/none": ""} {
		got, err := ReadOptional(r, file)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := ReadOptional(r, "/etc")
	require.ErrorContains(t, err, "cannot observe /etc")
}
