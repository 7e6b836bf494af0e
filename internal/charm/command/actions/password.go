package actions

import (
	"context"
	"fmt"

	"concourse-ci-machine/internal/charm/model"
)

// adminPassword tells the first user's name and password. It is never one that
// nobody uses: without a secret there is no answer (D24). Juju's tool takes
// results as arguments and in no other way, so for as long as it runs, a user of
// this very machine could read it.
func (c *Actions) adminPassword(_ context.Context, u unitNow, _ map[string]any) (map[string]any, error) {
	if err := u.usable("tell the password", model.WebRole); err != nil {
		return nil, err
	}
	password := u.Facts.Web.Secret[model.AdminPassword]
	if u.Facts.Web.SecretID == "" || password == "" {
		return nil, fmt.Errorf("cannot tell the password: there is none yet; juju status says what the web waits for")
	}
	return map[string]any{"username": u.Config.InitialAdminUsername, "password": password,
		"message": "Use these credentials to login to Concourse web UI"}, nil
}
