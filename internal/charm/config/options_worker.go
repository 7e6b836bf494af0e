package config

import (
	"fmt"
	"regexp"
	"time"
)

var tagForm = regexp.MustCompile(`^[^\s,"'\\$%[:cntrl:]]+$`)

// MaxDrainTimeout bounds worker-drain-timeout. After a worker left, the web keeps its key at
// most for this time and a little longer for the worker's hooks.
const MaxDrainTimeout = 24 * time.Hour

// workerOptions returns the options of workers, except those about GPUs.
func workerOptions() []Option {
	return []Option{
		text("tag", "", func(c *Config, s string) (err error) { c.Tags, err = list(s, tag); return err }),
		text("srv-folders", "all", func(c *Config, s string) (err error) {
			if c.NoSrvFolders = s == "none" || s == ""; c.NoSrvFolders || s == "all" {
				return nil
			}
			c.SrvFolders, err = list(s, folder)
			return err
		}),
		text("srv-folders-containers", "tasks", func(c *Config, s string) error {
			c.SrvFoldersContainers = s
			return oneOf(s, "tasks", "all")
		}),
		boolean("containerd-dns-proxy-enable", false, func(c *Config, on bool) { c.ContainerdDNSProxy = on }),
		text("containerd-dns-server", "1.1.1.1,8.8.8.8", func(c *Config, s string) (err error) {
			c.ContainerdDNSServers, err = list(s, address)
			return err
		}),
		text("worker-drain-timeout", "10m", func(c *Config, s string) (err error) {
			c.WorkerDrainTimeout, err = time.ParseDuration(s)
			if err != nil || c.WorkerDrainTimeout < 0 || c.WorkerDrainTimeout > MaxDrainTimeout {
				return fmt.Errorf("%q is not a time between 0s and 24h, such as 30s, 10m or 1h", s)
			}
			return nil
		}),
	}
}

func tag(s string) error {
	if !tagForm.MatchString(s) || !printable(s) {
		return fmt.Errorf("%q is not a tag: want words with commas between them, without white space or quotes", s)
	}
	return nil
}
