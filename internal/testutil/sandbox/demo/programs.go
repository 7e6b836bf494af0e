package demo

import (
	"fmt"
	"os"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// packageOf maps the programs that a demo needs to their packages in Debian and Ubuntu.
var packageOf = map[string]string{"debootstrap": "debootstrap", "wget": "wget", "ip": "iproute2",
	"nsenter": "util-linux", "mount": "mount", "tar": "tar", "runc": "runc"}

// getPrograms provides programs for the demo. Missing ones are unpacked into a throwaway
// folder, and nothing is installed.
func (d *demo) getPrograms(programs ...string) error {
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil { // a user's PATH may lack them
		return err
	}
	missing := debian.Missing(programs...)
	if len(missing) == 0 {
		return nil
	}
	var packages []string
	for _, p := range missing {
		packages = append(packages, packageOf[p])
	}
	names := strings.Join(packages, " ")
	dir, err := os.MkdirTemp("", "cci-programs-")
	if err != nil {
		return err
	}
	d.folders = append(d.folders, dir)
	err = d.screen.work("get "+names+" for the demo, without installing", func(report func(string)) error {
		if err := debian.Programs(debian.WithReport(d.ctx, report), dir, packages...); err != nil {
			return err
		}
		return debian.Use(dir)
	})
	if still := debian.Missing(missing...); err == nil && len(still) > 0 {
		err = fmt.Errorf("the packages lack %s", strings.Join(still, " "))
	}
	if err != nil {
		return fmt.Errorf("cannot get %s: %w; run apt-get install %s, then make demo again",
			strings.Join(missing, " "), err, names)
	}
	return nil
}
