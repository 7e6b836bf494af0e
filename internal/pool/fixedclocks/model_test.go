package fixedclocks

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seed  = flag.Uint64("clocks.seed", 0, "of the random steps; 0 is one of the time")
	steps = flag.Int("clocks.steps", 3000, "random steps")
)

// A GPU has a level that the charm set only while its task has the lease, or until the next
// look, also after kills. A setting of another program is kept.
func TestNoSettingOutlivesItsTask(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./internal/pool/fixedclocks -run NoSetting -clocks.seed=%d -clocks.steps=%d", from, *steps)
	r, w := rand.New(rand.NewPCG(from, 1)), newWorld(t)
	did := map[string]int{}
	measures := ""  // the container with fixed clocks
	others := false // another program has set the clocks
	boots, made := 1, 0
	end := func() { w.holder, measures = "", "" }
	// killed is a call of the wrapper that may be killed, with its lease.
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
			what = "measure"
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
				require.False(t, w.level().isFixed(), "step %d: the next task has the clocks of the last", n)
			}
		case roll < 65:
			what = "look"
			if w.dies(r.IntN(9), func() { w.look() }) {
				did["look killed"]++
			} else if measures == "" {
				require.False(t, w.level().isFixed(), "step %d: a setting outlives its task", n)
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
				w.put("clocks/"+gpu, "x")
			}
		}
		did[what]++
		if others {
			require.Equal(t, Level("manual"), w.level(), "step %d: %s", n, what)
		}
	}
	end()
	w.look()
	require.False(t, w.level().isFixed())
	require.True(t, w.blank())
	t.Log(did)
	if *steps >= 3000 {
		for _, what := range []string{"measure", "create", "look", "end", "killed", "look killed", "reboot", "damaged", "set by hand", "driver loaded again"} {
			require.NotZero(t, did[what], what)
		}
	}
}
