package config

import (
	"fmt"
	"slices"
	"strings"
)

// buildOptions returns the options about builds and their logs.
func buildOptions() []Option {
	return []Option{
		envText(web, "container-placement-strategy", "volume-locality", placement),
		envCount(web, "default-build-logs-to-retain"),
		envCount(web, "default-days-to-retain-build-logs"),
		envCount(web, "max-build-logs-to-retain"),
		envCount(web, "max-days-to-retain-build-logs"),
		envText(web, "gc-failed-grace-period", "", duration),
		envSwitch(web, "secret-cache-enabled", true),
		envText(web, "secret-cache-duration", "5m", duration),
		envText(web, "secret-cache-duration-notfound", "1m", duration),
		envSwitch(web, "enable-cache-streamed-volumes", false),
	}
}

// placement checks the strategies of Concourse 7 and 8 (concourse web --help). Concourse
// applies several in turn, and random leaves no choice to the next one.
func placement(s string) (string, error) {
	strategies, err := list(s, func(s string) error {
		return oneOf(s, "volume-locality", "random", "fewest-build-containers", "limit-active-tasks",
			"limit-active-containers", "limit-active-volumes")
	})
	if err != nil {
		return "", err
	}
	for i, one := range strategies {
		if slices.Contains(strategies[:i], one) {
			return "", fmt.Errorf("%s is given twice", one)
		}
	}
	if len(strategies) > 1 && slices.Contains(strategies, "random") {
		return "", fmt.Errorf("random excludes other strategies; write it alone or leave it out")
	}
	return strings.Join(strategies, ","), nil
}
