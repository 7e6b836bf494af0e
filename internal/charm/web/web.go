// Package web decides the state of a web's unit. Observe reads everything that the decision
// depends on, Desire decides, and Stop, RemoveFromWorker and RemoveAll end a web. The
// package never changes the machine itself: it returns resources, which package charm
// applies. Each file is one subject, such as keys, worker registration, the limit of tasks
// or the hold of builds.
package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/postgres"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Names of the triggers of a web.
const (
	ReloadWebUnit  = "daemon-reload-web"
	RestartWeb     = "restart-web"
	ReloadWeb      = "reload-web"
	RepairDatabase = "repair-database"
	ForgetWorker   = "forget-worker"

	ReloadWebOp = "reload " + concourse.WebUnit
)

// desireWeb desires the web itself. Without a database the web is stopped, and its
// credentials are removed from the disk.
func desireWeb(d *Desired, o Observed) error {
	w := o.Facts.Web
	paths := concourse.WebFiles(o.Shared())
	d.Resources = append(d.Resources, resource.User{Name: concourse.WebUser, Home: release.HomeDir})
	d.Resources = append(d.Resources, paths.Folders()...)
	d.Resources = append(d.Resources, concourse.OperatorEnv{})
	secrets, lacking := concourse.ParseWebSecrets(secretContent(o))
	db, ready, causes := databaseOf(o)
	up := lacking == nil && ready && w.Address != ""
	var before role.Series
	if up {
		d.Database, d.Repair = webDatabase(db, paths), repairConfig(db)
		d.Environment = webConfig(o, paths, secrets, d.Database).Env()
		before = role.Series{refuseDowngrade(o, d.Database, d.Environment), holdBeforeSwitch(o)}
	}
	if o.BeforeSwitch != nil {
		before = append(before, o.BeforeSwitch)
	}
	installed := role.DesireRelease(o.Observed, before)
	d.Resources, d.Causes = append(d.Resources, installed.Resources...), append(d.Causes, installed.Causes...)
	flags, refused := webFlags(o)
	d.UncheckedFlags = len(flags) > 0 && o.InstalledID != o.ReleaseID
	unit, err := concourse.WebUnitFileFor(paths, flags)
	if err != nil {
		return err
	}
	d.Resources = append(d.Resources, desireFlags(o), unit, resource.Trigger{Name: ReloadWebUnit,
		Inputs: [][]byte{unit.Data}, Files: []string{unit.Path},
		Op: "reload systemd for " + concourse.WebUnit, Then: []host.Command{resource.Systemctl("daemon-reload")}})

	state := o.Units[concourse.WebUnit]
	if lacking != nil {
		causes = append(causes, secretCause(o, lacking))
	} else {
		d.Secret = secretContent(o)
	}
	if w.Address == "" {
		causes = append(causes, status.Wait("Waiting for this unit's address: Juju has none yet"))
	}
	files, fileCauses := webFiles(o, paths, db)
	_, traced := tracing(o)
	_, login := ldapOf(o)
	d.Causes = slices.Concat(d.Causes, causes, refused, fileCauses, login, traced, routeCauses(o))
	for _, f := range certifyFiles(o, paths) {
		d.Resources = append(d.Resources, f)
	}
	if !up {
		d.Resources = append(d.Resources, resource.Service{Unit: concourse.WebUnit, State: state,
			Why: "it has no " + missingPart(ready, lacking)})
		// Only the operator's lines stay, because options and relations contain credentials.
		bare := concourse.WebConfig{Paths: paths, OptionKeys: config.WebEnvKeys(), Noted: o.Noted}
		env, err := bare.File(o.WebEnv)
		d.Resources = append(d.Resources, withNote(o, env, bare.ToNote())...)
		return err
	}
	return desireWebUp(d, o, paths, secrets, db, append([]resource.File{unit}, files...))
}

// tracing returns the receiver of the web's traces.
func tracing(o Observed) (concourse.Tracing, []status.Cause) {
	flags, _ := webFlags(o)
	return role.Tracing(o.Observed, o.WebEnv, flags, "concourse-web")
}

func missingPart(ready bool, err error) string {
	switch {
	case !ready:
		return "database"
	case err != nil:
		return "keys"
	}
	return "address"
}

// desireWebUp desires the running web with everything that it needs. The first of files is
// already desired.
func desireWebUp(d *Desired, o Observed, paths concourse.WebPaths, secrets concourse.WebSecrets,
	db relation.Database, files []resource.File) error {
	w, state := o.Facts.Web, o.Units[concourse.WebUnit]
	keys, err := paths.Keys(secrets)
	if err != nil {
		return err
	}
	d.Resources = append(d.Resources, keys...)
	inputs := [][]byte{[]byte(secrets.TSAHostKey), []byte(secrets.SessionSigningKey), []byte(o.ReleaseID)}
	read := []string{paths.TSAHostKey(), paths.SessionKey(), paths.Env()}
	for i, f := range files {
		if inputs, read = append(inputs, f.Data), append(read, f.Path); i > 0 {
			d.Resources = append(d.Resources, f)
		}
	}
	inputs = append(inputs, d.TrustInputs()...)
	config := webConfig(o, paths, secrets, d.Database)
	env, err := config.File(o.WebEnv)
	if err != nil {
		return err
	}
	keyFiles, err := workerKeyFiles(o, paths)
	if err != nil {
		return err
	}
	d.Up, d.Accepted = true, w.Authorized()
	d.Resources = append(d.Resources, withNote(o, env, config.ToNote())...)
	for _, f := range keyFiles {
		d.Resources = append(d.Resources, f)
	}
	d.Resources = append(d.Resources,
		resource.Trigger{Name: RepairDatabase, Inputs: [][]byte{[]byte(fmt.Sprintf("%s %d %s %s", db.Host,
			db.Port, db.Name, db.User))},
			Op: "check this web's rights in the database", Do: func(ctx context.Context, _ host.Host) error {
				if _, err := postgres.Repair(ctx, repairConfig(db)); err != nil {
					return databaseError{err}
				}
				return nil
			}},
		resource.Service{Unit: concourse.WebUnit, State: state, Up: true},
		// New or removed keys need no restart, because the web can reload the file (D16).
		// The reload precedes the restart: a signal would end a web that has just started.
		reloadKeys(state, keyFiles))
	if !o.Facts.Removed { // its relations end one by one, and each end would restart it
		restarted := d.Web
		d.Resources = append(d.Resources, resource.Trigger{Name: RestartWeb, Inputs: append(inputs, env.Data), Files: read,
			Unit: concourse.WebUnit, State: state, Op: "restart " + concourse.WebUnit, Adopt: role.Starts(state),
			Do: func(ctx context.Context, h host.Host) error {
				return Restart(ctx, h, apiOf(o), restarted, w.PeerAddress)
			}})
	}
	if len(keyFiles) == 1 { // last, because the running web must find all files of its environment
		d.Resources = append(d.Resources, resource.Absent{Path: paths.TeamKeys(),
			Why: "extra-worker-keys names no team"})
	}
	d.Resources = append(d.Resources, o.OldStorage...)
	desireHold(d, o)
	cut, cutKeys := cutOff(o)
	d.Cut, d.Resources = cutKeys, append(d.Resources, cut...)
	_, limited := taskLimit(o)
	d.Causes = slices.Concat(d.Causes, refusedWorkers(w), drainingCauses(o),
		unknownKeys(paths.AuthorizedKeys(), o.OtherKeys),
		missingArchs(slices.Concat(w.SortedWorkers(), o.Windows), o.Config.Web.RequiredArchs), limited)
	return nil
}

// databaseError reports a database that cannot be used now: an invalid password, a restart
// of the server, or missing rights. The status shows it, and every hook tries again.
type databaseError struct{ error }

func (e databaseError) Unwrap() error { return e.error }

// Temporary reports that another try can help.
func (databaseError) Temporary() bool { return true }

// databaseOf returns the database of Concourse, or the reason why it is missing.
func databaseOf(o Observed) (db relation.Database, ready bool, causes []status.Cause) {
	l := o.Facts.Web.Database
	if l == nil && o.Facts.Removed {
		return db, false, []status.Cause{
			status.Wait("the unit is being removed, and its database is not related any more"),
		}
	}
	if l == nil {
		return db, false, []status.Cause{status.Block("PostgreSQL database required").
			Run(o.Facts.Commands().Integrate("", "postgresql", "<postgresql application>:database"))}
	}
	db, ready, problems := relation.ParseDatabase(l.Remote, l.Units, l.Secrets)
	for _, p := range problems {
		causes = append(causes, status.Wait("postgresql: %s", p))
	}
	if !ready {
		causes = append(causes, status.Wait("Waiting for PostgreSQL database..."))
	}
	return db, ready, causes
}

func secretCause(o Observed, err error) status.Cause {
	if len(o.Facts.Web.Secret) == 0 {
		return status.Wait("Waiting for the leader to share the web's keys")
	}
	var bad *concourse.SecretError
	which := "all"
	if errors.As(err, &bad) {
		which = rotatedBy(bad.Key)
	}
	app, _, _ := strings.Cut(o.Facts.Unit, "/")
	return status.Block("%s", err).Run(o.Facts.Commands().Of(app + "/leader").RunAction("rotate-keys keys=" + which))
}

// webURL returns the web's URL for users.
func webURL(o Observed) string {
	urls, _ := routeURLs(o)
	switch {
	case o.Config.Web.ExternalURL != "":
		return o.Config.Web.ExternalURL
	case len(urls) > 0:
		return urls[0]
	case o.TLS:
		return "https://" + net.JoinHostPort(o.Facts.Web.Address, strconv.Itoa(o.Config.Web.TLSPort))
	}
	return "http://" + net.JoinHostPort(o.Facts.Web.Address, strconv.Itoa(o.Config.Web.Port))
}

// webConfig returns the environment from options, relations and secrets.
func webConfig(o Observed, paths concourse.WebPaths, s concourse.WebSecrets,
	db concourse.WebDatabase) concourse.WebConfig {
	w, content := o.Facts.Web, secretContent(o)
	_, teams := extraKeys(o.Config.Web.ExtraWorkerKeys)
	c := concourse.WebConfig{Paths: paths, BindPort: o.Config.Web.Port, LogLevel: string(o.Config.LogLevel),
		ExternalURL: webURL(o),
		PeerAddress: w.PeerAddress, Peers: w.Peers, ClusterName: o.Facts.Model,
		WebOptions: o.Config.Web.WebOptions, AdminPassword: s.AdminPassword, TeamKeys: len(teams) > 0, Database: db,
		Options: maps.Clone(o.Config.Web.Env), OptionKeys: config.WebEnvKeys(),
		Proxy: role.ProxyOf(o.Facts, o.Config)}
	if db != (concourse.WebDatabase{}) {
		c.EncryptionKey, c.OldEncryptionKey = content[model.EncryptionKey], content[model.OldEncryptionKey]
	}
	if o.TLS {
		c.TLSPort = o.Config.Web.TLSPort
	}
	c.TaskLimit, _ = taskLimit(o)
	c.Noted = o.Noted
	c.Vault = vaultEnv(o, paths)
	c.LDAP, _ = ldapOf(o)
	c.Tracing, _ = tracing(o)
	for _, key := range optionFiles(o) {
		c.Options[key] = optionFile(paths, key)
	}
	return c
}
