//go:build e2e

package journeys

import "fmt"

// browser plays the person's browser for a login with fly on a terminal: it opens the URL that
// fly prints, logs in as the administrator and gives fly the token, as the web's page does.
const browser = `set -u
dir=$(mktemp -d)
mkfifo "$dir/keyboard"
exec 3<>"$dir/keyboard"
script --quiet --flush --command '%s' "$dir/log" <&3 >/dev/null 2>&1 &
fly=$!
until port=$(sed -n 's/.*fly_port=\([0-9]*\).*/\1/p' "$dir/log" 2>/dev/null) && [ -n "$port" ]; do
	kill -0 "$fly" 2>/dev/null || { cat "$dir/log"; exit 1; }
	sleep 0.2
done
url=$(sed -n 's,.*\(http://.*\)/login?fly_port.*,\1,p' "$dir/log")
password=$(sudo concourse-ci-machine get-admin-password | sed -n 's/^password: //p')
scope=openid+profile+email+federated:id+groups
token=$(printf 'grant_type=password&username=admin&scope=%%s&password=%%s' "$scope" "$password" |
	curl -fsS --user fly:Zmx5 --data @- "$url/sky/issuer/token" | jq -r .access_token)
curl -fsS --get --data-urlencode "token=bearer $token" "http://127.0.0.1:$port/" >/dev/null
wait "$fly"
status=$?
cat "$dir/log"
exit "$status"
`

// answer confirms the change of a pipeline. The question is answered with the key Enter, and
// an input without an end holds fly.
const answer = `printf 'y\r' | %s | tee /tmp/answer && grep -q 'pipeline created' /tmp/answer`

// logIn runs fly login, with the browser's part played.
func (w *walk) logIn(command string) (string, error) {
	return w.as(fmt.Sprintf(browser, command))
}
