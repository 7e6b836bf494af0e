package config

import (
	"fmt"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

var tagForm = lazyregexp.New(`^[^\s,"'\\$%[:cntrl:]]+$`)

// MaxDrainTimeout bounds worker-drain-timeout. After a worker left, the web keeps its key at
// most for this time and a little longer for the worker's hooks.
const MaxDrainTimeout = 24 * time.Hour

// workerOptions returns the options of workers, except those about GPUs.
func workerOptions() []Option {
	return []Option{
		text("tag", "", func(c *Config, s string) (err error) { c.Worker.Tag, err = list(s, tag); return err }),
		text("srv-folders", "all", func(c *Config, s string) (err error) {
			if c.Worker.NoSrvFolders = s == "none" || s == ""; c.Worker.NoSrvFolders || s == "all" {
				return nil
			}
			c.Worker.SrvFolders, err = list(s, folder)
			return err
		}),
		choice("srv-folders-containers", func(c *Config) *oci.Containers { return &c.Worker.SrvFoldersContainers },
			oci.Tasks, oci.All),
		boolean("containerd-dns-proxy-enable", false,
			func(c *Config, on bool) { c.Worker.ContainerdDNSProxyEnable = on }),
		text("containerd-dns-server", "", func(c *Config, s string) (err error) {
			c.Worker.ContainerdDNSServer, err = list(s, address)
			return err
		}),
		text("worker-drain-timeout", "10m", func(c *Config, s string) (err error) {
			c.Worker.DrainTimeout, err = time.ParseDuration(s)
			if err != nil || c.Worker.DrainTimeout < 0 || c.Worker.DrainTimeout > MaxDrainTimeout {
				return fmt.Errorf("%q is not a time between 0s and 24h, such as 30s, 10m or 1h", s)
			}
			return nil
		}),
		integer("task-record-size", 512, 0, 1<<20, func(c *Config, n int) error {
			c.Worker.TaskRecordSize = n
			return nil
		}),
	}
}

func tag(s string) error {
	if !tagForm().MatchString(s) || !printable(s) {
		return fmt.Errorf("%q is not a tag: want words with commas between them, without white space or quotes", s)
	}
	return nil
}
