package relation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// mountSuffix ends the name of the provider's secrets engine:
// charm-<application>-concourse.
const mountSuffix = "concourse"

// VaultRequest returns the databags of vault-kv's requirer: of the application and of the
// unit. Each unit has its own credentials, which are valid for its addresses only (D59).
// nonce identifies the unit for its lifetime. egress has networks or addresses. Other
// values are left out.
func VaultRequest(nonce string, egress []string) (app, unit map[string]string) {
	var networks []string
	for _, text := range egress {
		if network, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, network.Masked().String())
		} else if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			networks = append(networks, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	// Sorted, because the provider replaces the credentials if the order changes.
	slices.Sort(networks)
	return map[string]string{"mount_suffix": mountSuffix},
		map[string]string{"egress_subnet": strings.Join(slices.Compact(networks), ","), "nonce": nonce}
}

// VaultSecret returns the id of the secret with this unit's credentials, "" if the provider
// has not created it yet.
func VaultSecret(app map[string]string, nonce string) string {
	id, err := vaultSecret(app, nonce)
	if err != nil {
		return ""
	}
	return id
}

func vaultSecret(app map[string]string, nonce string) (string, error) {
	if app["credentials"] == "" || nonce == "" {
		return "", nil
	}
	var credentials map[string]string
	if err := json.Unmarshal([]byte(app["credentials"]), &credentials); err != nil {
		return "", errors.New("want a JSON object of text, the nonce of a unit and the id of a secret")
	}
	id := credentials[nonce]
	if id == "" {
		return "", nil
	}
	return id, checkSecretID(id)
}

// Vault holds the server with the credentials of pipelines, and the web's login to it.
type Vault struct {
	URL      string
	CA       string // PEM; "" if the system trusts Vault's certificate
	Mount    string // of the secrets engine, without slashes around it
	RoleID   string
	SecretID string
}

// Values of these forms become parts of CONCOURSE_VAULT_AUTH_PARAM, in which a comma ends a
// value.
var (
	vaultMount = lazyregexp.New(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	vaultRole  = lazyregexp.New(`^[A-Za-z0-9_./+=~-]+$`)
)

// ParseVault reads the databag of vault-kv's provider (its application) and the contents of
// secrets by id. VaultSecret returns the id that it needs. It returns false without
// problems if the provider has not answered this unit yet. A problem names the key, never a
// secret. The CA is optional (D59).
func ParseVault(app map[string]string, nonce string, secrets map[string]map[string]string) (Vault, bool, []string) {
	r := reader{secrets: secrets}
	id, err := vaultSecret(app, nonce)
	r.addProblem("credentials", err)
	v := Vault{URL: strings.TrimRight(app["vault_url"], "/"), Mount: strings.Trim(app["mount"], "/")}
	if v.URL != "" {
		r.addProblem("vault_url", checkURL(v.URL))
	}
	if v.Mount != "" && (len(v.Mount) > maxText || !vaultMount().MatchString(v.Mount) ||
		strings.Contains("/"+v.Mount+"/", "/../")) {
		r.addProblem("mount", fmt.Errorf("%.100q is not the path of a secrets engine", v.Mount))
	}
	if text := strings.TrimSpace(app["ca_certificate"]); text != "" {
		certs, err := certificates(text)
		r.addProblem("ca_certificate", err)
		v.CA = pemOf(certs...)
	}
	if id == "" || len(r.problems) > 0 {
		return Vault{}, false, r.problems
	}
	content, there := secrets[id]
	if !there {
		r.addProblem("credentials", errors.New("the secret of this unit can't be read"))
	}
	v.RoleID, v.SecretID = r.role(content, "role-id", there), r.role(content, "role-secret-id", there)
	if v.URL == "" || v.Mount == "" || len(r.problems) > 0 {
		return Vault{}, false, r.problems
	}
	return v, true, nil
}

func (r *reader) role(content map[string]string, key string, there bool) string {
	s := content[key]
	switch {
	case !there:
	case s == "":
		r.addProblem(key, errors.New("the secret lacks it"))
	case len(s) > maxText || !vaultRole().MatchString(s):
		r.addProblem(key, errors.New("it has other characters than letters, digits and _./+=~-"))
	}
	return s
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxText || plainText(s) != nil || strings.ContainsAny(s, " \"'\\") {
		return errors.New("it is not a URL")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("want https://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("want https://host:port without user, query and fragment")
	case !isHost(u.Hostname()):
		return fmt.Errorf("%.100q names no host", s)
	}
	return nil
}

// Env returns the environment of `concourse web`. caFile is the file with the CA, used only
// if there is a CA.
func (v Vault) Env(caFile string) map[string]string {
	env := map[string]string{
		"CONCOURSE_VAULT_URL":          v.URL,
		"CONCOURSE_VAULT_AUTH_BACKEND": "approle",
		// A name and its value have a colon between them, and pairs have a comma (D60).
		"CONCOURSE_VAULT_AUTH_PARAM":  "role_id:" + v.RoleID + ",secret_id:" + v.SecretID,
		"CONCOURSE_VAULT_PATH_PREFIX": "/" + v.Mount,
	}
	if v.CA != "" {
		env["CONCOURSE_VAULT_CA_CERT"] = caFile
	}
	return env
}
