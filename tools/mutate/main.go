// Command mutate measures the tests: it edits the product in small ways, one at a time, and
// runs the tests of the edited package and of its direct importers. It reports the edits
// that no test noticed. It never changes the tree: an edited file is an overlay of go test.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// minKilled is the least share of compiled edits that tests must notice.
const minKilled = 0.85

// parallel is the number of edits that are tried at a time.
var parallel = runtime.NumCPU()

// tried describes an edit with its result.
type tried struct {
	edit
	result, by string
}

func main() {
	n := flag.Int("n", 200, "number of edits")
	seed := flag.Uint64("seed", 1, "another seed makes other edits")
	run := flag.String("exec", "", "the option -exec of go test, such as: setpriv --reuid=65534 --clear-groups")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./internal/...", "./src/..."}
	}
	share, err := mutate(patterns, *seed, *n, *run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure the tests:", err)
		os.Exit(2)
	}
	if share < minKilled {
		fmt.Printf("fewer than %.0f %% killed\n", 100*minKilled)
		os.Exit(1)
	}
}

// mutate tries n edits and prints the table. It returns the share of killed ones.
func mutate(patterns []string, seed uint64, n int, run string) (float64, error) {
	if os.Geteuid() == 0 && run == "" {
		return 0, fmt.Errorf("an edited program may remove files or kill processes: run it without root, or with -exec")
	}
	// An endless loop must fill neither memory nor disk.
	for resource, limit := range map[int]uint64{unix.RLIMIT_AS: 16 << 30, unix.RLIMIT_FSIZE: 4 << 30} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return 0, err
		}
	}
	from, err := listed(patterns...)
	if err != nil {
		return 0, err
	}
	all, err := listed("./...")
	if err != nil {
		return 0, err
	}
	edits, err := sample(from, seed, n)
	if err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp("", "mutate-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	results, err := try(&tests{work: work, exec: run, baseline: map[string]time.Duration{}}, edits, from, all)
	if err != nil {
		return 0, err
	}
	return report(results), nil
}

// try returns the results of the edits, in their order. Those that survive the tests of
// their own package meet those of its importers.
func try(t *tests, edits []edit, from, all []pkg) ([]tried, error) {
	byDir := map[string]pkg{}
	for _, p := range from {
		byDir[p.Dir] = p
	}
	results := make([]tried, len(edits))
	for i, e := range edits {
		results[i] = tried{edit: e, result: survived}
	}
	for _, of := range []func(pkg) []string{own, func(p pkg) []string { return importers(p, all) }} {
		orders, needed := make([][]string, len(edits)), []string{}
		for i, r := range results {
			if r.result == survived {
				orders[i] = of(byDir[filepath.Dir(r.file)])
				needed = append(needed, orders[i]...)
			}
		}
		slices.Sort(needed)
		if err := t.measure(slices.Compact(needed)); err != nil {
			return nil, err
		}
		if err := each(len(edits), func(i int) (err error) {
			r := &results[i]
			order := t.order(orders[i])
			if r.result != survived || len(order) == 0 {
				return nil
			}
			r.result, r.by, err = t.try(r.edit, i, order)
			fmt.Printf("%-12s %s %s %s\n", r.result, r.place(), r.change(), r.by)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// each calls do for 0 to n-1, several at a time.
func each(n int, do func(int) error) error {
	next, errs, wait := make(chan int), make([]error, n), sync.WaitGroup{}
	for range parallel {
		wait.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	return errors.Join(errs...)
}

// place returns the file with its line, relative to the current folder.
func (e edit) place() string {
	dir, err := os.Getwd()
	if err != nil {
		return e.file
	}
	return fmt.Sprintf("%s:%d", strings.TrimPrefix(e.file, dir+"/"), e.line)
}

// change returns the edit in words, such as: boundary < -> <=.
func (e edit) change() string {
	was := strings.Join(strings.Fields(e.was), " ")
	if e.text == "" {
		return e.kind + " without " + was
	}
	return e.kind + " " + was + " -> " + e.text
}

// report prints a table of kinds and folders, and the edits that survived. It returns the
// share of killed ones among those that compiled.
func report(results []tried) float64 {
	rows, count := slices.Clone(kinds), map[string]map[string]int{}
	add := func(row, result string) {
		if count[row] == nil {
			count[row] = map[string]int{}
		}
		count[row][result]++
	}
	for _, r := range results {
		folder := filepath.Dir(strings.Split(r.place(), ":")[0])
		if !slices.Contains(rows, folder) {
			rows = append(rows, folder)
		}
		for _, row := range []string{r.kind, folder, "all"} {
			add(row, r.result)
		}
	}
	fmt.Printf("\n| edits | %s | %s | %s |\n|---|---|---|---|\n", killed, survived, notCompiled)
	for _, row := range append(rows, "all") {
		c := count[row]
		fmt.Printf("| %s | %d | %d | %d |\n", row, c[killed], c[survived], c[notCompiled])
	}
	fmt.Println()
	for _, r := range results {
		if r.result == survived {
			fmt.Println(survived, r.place(), r.change())
		}
	}
	all := count["all"]
	share := float64(all[killed]) / float64(max(1, all[killed]+all[survived]))
	fmt.Printf("%d of %d edits killed: %.0f %%\n", all[killed], all[killed]+all[survived], 100*share)
	return share
}
