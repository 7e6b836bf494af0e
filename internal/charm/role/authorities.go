package role

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

const (
	// SystemCerts has the authorities that the machine trusts. update-ca-certificates makes
	// it from the public authorities and from /usr/local/share/ca-certificates.
	// SystemBundle has all of them in one file.
	SystemCerts  = "/etc/ssl/certs"
	SystemBundle = SystemCerts + "/ca-certificates.crt"
	// authoritiesDir has the authorities of the relation, one certificate in each file. It
	// is removed last, because it shows that removed files may still be trusted.
	authoritiesDir = "/usr/local/share/ca-certificates/concourse-ci-machine"
	authorityName  = "concourse-ci-machine-" // prefix of each file's name

	// UpdateTrust is the trigger that makes SystemCerts.
	UpdateTrust = "update-ca-certificates"
)

// Trust holds the state of the machine's authorities from relations.
type Trust struct {
	Dir     bool     // authoritiesDir exists
	Files   []string // names in authoritiesDir
	Links   []string // names of files with a link in SystemCerts
	Dangles bool     // SystemCerts has a broken link
}

// ObserveTrust reads Trust. If no relation ever provided authorities, it reads one name
// only.
func ObserveTrust(r host.Root, related bool) (t Trust, err error) {
	names := func(dir string) (names []string) {
		entries, failed := r.ReadDir(dir)
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = failed
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	t.Files, t.Dir = names(authoritiesDir), r.Exists(authoritiesDir)
	if !t.Dir && !related {
		return t, jujuerrors.Annotate(err, "cannot observe which authorities are trusted")
	}
	for _, name := range names(SystemCerts) {
		if !r.Exists(SystemCerts + "/" + name) {
			t.Dangles = true
		}
		if file, own := strings.CutSuffix(name, ".pem"); own && strings.HasPrefix(name, authorityName) {
			t.Links = append(t.Links, file+".crt")
		}
	}
	return t, jujuerrors.Annotate(err, "cannot observe which authorities are trusted")
}

// authorities returns the authorities of the relations, and warnings about them.
func authorities(o Observed) (all []relation.Authority, causes []status.Cause) {
	const endpoint = "receive-ca-certs"
	app := juju.AppOf(o.Facts.Unit)
	var given [][]relation.Authority
	for _, l := range o.Facts.Authorities.Relations {
		some, problems := relation.ParseAuthorities(l.Remote, l.Units)
		for _, p := range problems {
			causes = append(causes, WrongData(status.Active, app, endpoint, l.App, p))
		}
		if len(some)+len(problems) == 0 {
			causes = append(causes, status.Warn(endpoint+": %s has given no certificate yet", l.App).
				Run("juju status "+l.App))
		}
		given = append(given, some)
	}
	all, dropped := shareAuthorities(given)
	for i, n := range dropped {
		if n > 0 {
			from := o.Facts.Authorities.Relations[i].App
			causes = append(causes, status.Warn(endpoint+": %d of %d authorities of %s are not trusted", n, len(given[i]),
				from).Explain("the limit is %d; have it give fewer, or remove the relation", relation.MaxAuthorities).
				Run(removeRelation(app, endpoint, from)))
		}
	}
	return all, causes
}

// shareAuthorities takes one authority of each relation in turn until the limit is reached.
// So a relation with many authorities does not displace authorities of another one. dropped
// has the number of dropped authorities of each relation.
func shareAuthorities(given [][]relation.Authority) (all []relation.Authority, dropped []int) {
	dropped = make([]int, len(given))
	trusted := map[string]bool{}
	for turn, more := 0, true; more; turn++ {
		more = false
		for i, list := range given {
			if turn >= len(list) {
				continue
			}
			more = true
			a := list[turn]
			switch {
			case trusted[a.Fingerprint]:
			case len(all) == relation.MaxAuthorities:
				dropped[i]++
			default:
				trusted[a.Fingerprint] = true
				all = append(all, a)
			}
		}
	}
	return relation.Distinct(all), dropped
}

// DesireTrust makes the machine trust exactly these authorities, apart from public ones.
func DesireTrust(t Trust, all []relation.Authority) (rs []plan.Resource) {
	if len(all) == 0 && !t.Dir {
		return nil
	}
	const why = "no relation gives its certificate"
	update := resource.Trigger{Name: UpdateTrust, Op: "make " + SystemCerts + " again"}
	rs = append(rs, resource.Dir{Path: authoritiesDir, Mode: 0o755})
	var names []string
	for _, a := range all {
		f := resource.File{Path: path.Join(authoritiesDir, fileOf(a)), Data: []byte(a.PEM), Mode: 0o644}
		names = append(names, fileOf(a))
		update.Inputs, update.Files = append(update.Inputs, f.Data), append(update.Files, f.Path)
		rs = append(rs, f)
	}
	unknown := func(name string) bool { return !slices.Contains(names, name) }
	for _, name := range t.Files {
		if unknown(name) {
			rs = append(rs, resource.Absent{Path: path.Join(authoritiesDir, name), Why: why, Tree: true})
		}
	}
	argv := []string{"update-ca-certificates"}
	// Without --fresh a removed file leaves a broken link. Concourse copies the folder for
	// checks, gets and puts, and the copy would fail.
	if t.Dangles || slices.ContainsFunc(t.Links, unknown) {
		argv = append(argv, "--fresh")
	}
	update.Then = []host.Command{{Argv: argv, Deadline: 5 * time.Minute}}
	rs = append(rs, update)
	if len(all) == 0 {
		rs = append(rs, resource.Absent{Path: authoritiesDir, Why: why, Tree: true})
	}
	return rs
}

func fileOf(a relation.Authority) string { return authorityName + a.Fingerprint[:32] + ".crt" }

// KnowAuthorities sets the authorities that tasks trust, and returns warnings about them.
func (d *Desired) KnowAuthorities(o Observed) (remarks []status.Cause) {
	d.Trusted, remarks = authorities(o)
	return remarks
}

// TrustAuthorities makes the machine trust the authorities of the relations.
func (d *Desired) TrustAuthorities(o Observed) {
	remarks := d.KnowAuthorities(o)
	d.Causes = append(d.Causes, remarks...)
	d.Resources = append(d.Resources, DesireTrust(o.Trust, d.Trusted)...)
}

// TrustInputs returns inputs for the restart of a process, which reads authorities only
// once.
func (d *Desired) TrustInputs() (inputs [][]byte) {
	for _, a := range d.Trusted {
		inputs = append(inputs, []byte(a.Fingerprint))
	}
	return inputs
}

// WrongData returns the cause for data of a related application that cannot be used.
func WrongData(kind status.Kind, app, endpoint, from string, problem any) status.Cause {
	return status.Warn("%s: %s", endpoint, problem).As(kind).
		Explain("%s must correct it, or remove the relation; until then its data is not used", from).
		Run(removeRelation(app, endpoint, from))
}

func removeRelation(app, endpoint, from string) string {
	return "juju remove-relation " + app + ":" + endpoint + " " + from
}
