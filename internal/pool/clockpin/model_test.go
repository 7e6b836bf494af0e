package clockpin

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seed  = flag.Uint64("pin.seed", 0, "of the random steps; 0 is one of the time")
	steps = flag.Int("pin.steps", 3000, "random steps")
)

// Whatever happens to whom, and wherever it is killed: a GPU has a level of the charm's
// only for who leases it and asked for that, or until the next look; and what somebody
// else has set stays.
func TestNoSettingOutlivesItsTask(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./internal/pool/clockpin -run NoSetting -pin.seed=%d -pin.steps=%d", from, *steps)
	r, w := rand.New(rand.NewPCG(from, 1)), newWorld(t)
	did := map[string]int{}
	measures := ""  // the container that was told that its clocks are fixed
	others := false // somebody has set the clocks by hand
	boots, made := 1, 0
	end := func() { w.holder, measures = "", "" }
	// killed is a call of the wrapper's that may die, and the lease with it.
	killed := func(do func()) bool {
		if !w.dies(r.IntN(9), do) {
			return false
		}
		did["killed"]++
		end()
		return true
	}
	for n := range *steps {
		what := ""
		switch roll := r.IntN(100); {
		case roll < 25 && w.holder == "":
			what = "bench"
			made++
			w.putClocks()
			c, l := fmt.Sprint("c", made), []Level{Standard, Determinism}[r.IntN(2)]
			var err error
			if !killed(func() { err = w.set(c, l) }) {
				require.Equal(t, others, err != nil, "step %d: %v", n, err)
				if err == nil {
					measures = c
					require.Equal(t, l, w.level())
				}
			}
		case roll < 40 && w.holder == "":
			what = "create"
			made++
			if !killed(func() { w.create(fmt.Sprint("c", made)) }) {
				require.False(t, w.level().pins(), "step %d: the next task has the clocks of the last", n)
			}
		case roll < 65:
			what = "look"
			if w.dies(r.IntN(9), func() { w.look() }) {
				did["look killed"]++
			} else if measures == "" {
				require.False(t, w.level().pins(), "step %d: a setting outlives its task", n)
			}
		case roll < 85:
			what = "end"
			end()
		case roll < 88:
			what = "reboot"
			boots++
			w.put("proc/sys/kernel/random/boot_id", fmt.Sprint("boot-", boots))
			w.put("sys/"+levelFile, "auto\n")
			end()
			others = false
		case roll < 91:
			what = "driver loaded again"
			w.put("sys/"+levelFile, "auto\n")
			others = false
		case roll < 94:
			what = "set by hand"
			w.put("sys/"+levelFile, "manual\n")
			others = true
		case roll < 97:
			what = "set back by hand"
			w.put("sys/"+levelFile, "auto\n")
			others = false
		default:
			what = "damaged"
			if w.holder == "" {
				w.put("pins/"+gpu, "x")
			}
		}
		did[what]++
		if others {
			require.Equal(t, Level("manual"), w.level(), "step %d: %s", n, what)
		}
	}
	end()
	w.look()
	require.False(t, w.level().pins())
	require.True(t, w.blank())
	t.Log(did)
	if *steps >= 3000 {
		for _, what := range []string{"bench", "create", "look", "end", "killed", "look killed", "reboot", "damaged", "set by hand", "driver loaded again"} {
			require.NotZero(t, did[what], what)
		}
	}
}
