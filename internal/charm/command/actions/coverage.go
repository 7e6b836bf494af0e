package actions

import (
	"context"
	"strings"

	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/web"
)

// coverage tells which architectures the workers have. Every web sees the same
// relations, so any of its units can tell, not its leader only.
func (c *Actions) coverage(_ context.Context, u unitState, params map[string]any) (map[string]any, error) {
	if err := u.checkUsable("tell the coverage", model.WebRole); err != nil {
		return nil, err
	}
	all := web.CoverageOf(u.Facts.Web.SortedWorkers(), u.Config.RequiredArchs)
	var b strings.Builder
	var err error
	if params["format"] == "json" {
		err = term.JSON(&b, all)
	} else {
		e := yaml.NewEncoder(&b)
		e.SetIndent(2)
		err = e.Encode(all)
	}
	return map[string]any{"coverage": strings.TrimSpace(b.String()), "missing": strings.Join(all.Missing, ","), "withheld": strings.Join(all.Withheld, ",")}, err
}
