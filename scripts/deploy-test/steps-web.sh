#!/bin/bash
# Read by deploy-test.sh: the steps that are about the web's configuration.
# shellcheck disable=SC2016 # the variables in single quotes are the unit's or jq's

has_line() { # UNIT LINE: config.env has exactly this line
	on_unit "$1" "grep -qxF -e '$2' $ENV_FILE" || { echo "$ENV_FILE of $1 has not: $2"; return 1; }
}

lacks_key() { # UNIT KEY-PREFIX
	on_unit "$1" "! grep -q '^$2' $ENV_FILE" || { echo "$ENV_FILE of $1 still has $2"; return 1; }
}

has_key() { # UNIT KEY: never its value, which may be a secret
	on_unit "$1" "grep -q '^$2=.' $ENV_FILE" || { echo "$ENV_FILE of $1 has no $2"; return 1; }
}

started_with() { # UNIT FLAG
	on_unit "$1" "systemctl show --property ExecStart concourse-server | grep -qF -e '$2'" || { echo "concourse-server is not started with $2"; return 1; }
}

# secret NAME KEY FILE APP: a secret of the model, from a file; prints its URI.
secret() {
	local uri
	uri=$(juju add-secret --model "$MODEL" "$1" "$2#file=$3") || die "cannot add the secret $1"
	[[ $uri =~ secret:[a-z0-9]+ ]] || die "juju add-secret prints no URI"
	juju grant-secret --model "$MODEL" "$1" "$4" || die "cannot grant the secret $1 to $4"
	echo "${BASH_REMATCH[0]}"
}

random() { # BYTES FILE: hexadecimal, two letters a byte
	head -c "$1" /dev/urandom | od -An -vtx1 | tr -d ' \n' >"$2"
}

step_config() {
	local unit uri="secret:ID" kept=DEPLOY_TEST_KEPT=yes
	unit=$(web_unit)
	echo "+ juju add-secret deploy-test-key encryption-key#file=FILE; juju grant-secret deploy-test-key $WEB_APP"
	if [[ -z $DRY ]]; then
		random 16 "$WORK/key"
		uri=$(secret deploy-test-key encryption-key "$WORK/key" "$WEB_APP")
		rm "$WORK/key"
	fi
	check "a line of an administrator's can be put into $ENV_FILE" on_unit "$unit" "echo $kept >>$ENV_FILE"
	run juju config --model "$MODEL" "$WEB_APP" "encryption-key=$uri" \
		container-placement-strategy=fewest-build-containers default-build-logs-to-retain=50 max-build-logs-to-retain=100 \
		gc-failed-grace-period=30m extra-web-flags=--enable-resource-causality
	wait_until "the encryption key is there" has_key "$unit" CONCOURSE_ENCRYPTION_KEY
	wait_until "the placement is there" has_line "$unit" CONCOURSE_CONTAINER_PLACEMENT_STRATEGY=fewest-build-containers
	wait_until "the retention is there" has_line "$unit" CONCOURSE_DEFAULT_BUILD_LOGS_TO_RETAIN=50
	wait_until "its limit is there" has_line "$unit" CONCOURSE_MAX_BUILD_LOGS_TO_RETAIN=100
	wait_until "the grace period is there" has_line "$unit" CONCOURSE_GC_FAILED_GRACE_PERIOD=30m
	wait_until "the flag is there" started_with "$unit" --enable-resource-causality
	check "the keys are sorted" on_unit "$unit" "grep '^CONCOURSE_' $ENV_FILE | cut -d= -f1 | LC_ALL=C sort -c"
	check "the administrator's line is kept" has_line "$unit" "$kept"
	wait_until "all units are active" ready ""
	session
	run juju config --model "$MODEL" "$WEB_APP" --reset encryption-key,container-placement-strategy,default-build-logs-to-retain,max-build-logs-to-retain,gc-failed-grace-period,extra-web-flags
	wait_until "the encryption key is gone" lacks_key "$unit" CONCOURSE_ENCRYPTION_KEY=
	wait_until "the placement is the default again" lacks_line "$unit" CONCOURSE_CONTAINER_PLACEMENT_STRATEGY=fewest-build-containers
	check "the administrator's line can be taken out" on_unit "$unit" "sed -i '/^$kept\$/d' $ENV_FILE"
	wait_until "all units are active" ready ""
	run juju remove-secret --model "$MODEL" deploy-test-key
}

lacks_line() { # UNIT LINE
	on_unit "$1" "! grep -qxF -e '$2' $ENV_FILE" || { echo "$ENV_FILE of $1 still has: $2"; return 1; }
}

# v METHOD PATH [FILE]: asks Vault, whose certificate is of its charm's own making. The token is in a file of headers, what is
# sent in another.
v() {
	fetch --insecure --request "$1" ${VAULT_HEADERS:+--header "@$VAULT_HEADERS"} ${3:+--data "@$3"} "$VAULT_URL/v1/$2"
}

vault_up() {
	local address
	address=$(app_units vault | awk -F '\t' '!n++ { print $3 }') || return
	[[ -n $address && $address != - ]] || { echo "vault has no address"; return 1; }
	VAULT_URL=https://$address:8200
	v GET sys/seal-status >/dev/null || { echo "$VAULT_URL does not answer"; return 1; }
	echo "$VAULT_URL" >"$WORK/vault-url"
}

# open_vault makes it usable, and the charm allowed to use it.
open_vault() {
	local uri=
	VAULT_URL=$(cat "$WORK/vault-url")
	echo '{"secret_shares": 1, "secret_threshold": 1}' >"$WORK/body"
	v PUT sys/init "$WORK/body" >"$WORK/init" || die "cannot initialise Vault at $VAULT_URL"
	jq '{key: .keys_base64[0]}' "$WORK/init" >"$WORK/body"
	v PUT sys/unseal "$WORK/body" | jq -e '.sealed == false' >/dev/null || die "cannot unseal Vault"
	VAULT_HEADERS=$WORK/vault-headers
	jq -r '"X-Vault-Token: " + .root_token' "$WORK/init" >"$VAULT_HEADERS"
	jq -j .root_token "$WORK/init" >"$WORK/root-token"
	rm "$WORK/init" "$WORK/body"
	uri=$(secret deploy-test-vault token "$WORK/root-token" vault)
	rm "$WORK/root-token"
	run_retried juju run --model "$MODEL" vault/leader authorize-charm "secret-id=${uri#secret:}"
}

# put_secret MOUNT PATH VALUE: in the KV engine there, whose version decides the
# path and the form.
put_secret() {
	local kind
	kind=$(v GET "sys/mounts/$1" | jq -r '.data.options.version // .options.version // "1"') || die "Vault has no mount $1"
	if [[ $kind == 2 ]]; then
		jq -n --arg value "$3" '{data: {value: $value}}' >"$WORK/body"
		v POST "$1/data/$2" "$WORK/body" >/dev/null || die "cannot write $1/$2 into Vault"
	else
		jq -n --arg value "$3" '{value: $value}' >"$WORK/body"
		v POST "$1/$2" "$WORK/body" >/dev/null || die "cannot write $1/$2 into Vault"
	fi
}

# approle_login UNIT: from the unit itself, as the role is bound to its address.
approle_login() {
	on_unit "$1" 'set -eu; umask 077; dir=$(mktemp -d); trap "rm -r $dir" EXIT
		value() { sed -n "s/^CONCOURSE_VAULT_$1=//p" '"$ENV_FILE"' | tr -d \"; }
		role=$(value AUTH_PARAM); role=${role#role_id:}; ca=$(value CA_CERT)
		printf "{\"role_id\": \"%s\", \"secret_id\": \"%s\"}" "${role%%,*}" "${role##*secret_id:}" >$dir/body
		curl -fsS ${ca:+--cacert "$ca"} --data @$dir/body --output $dir/answer "$(value URL)/v1/auth/approle/login"
		grep -q client_token $dir/answer'
}

set_vault_pipeline() {
	run_fly set-pipeline --non-interactive --pipeline deploy-test-vault --config "$HERE/deploy-test/vault.yml" --var want=after
	run_fly unpause-pipeline --pipeline deploy-test-vault
}

# no_value: the build ends as errored, which fly tells with 2, and not as failed.
no_value() {
	local code=0
	f trigger-job --job deploy-test-vault/read --watch || code=$?
	((code == 2))
}

# reads_vault: a build gets the value.
reads_vault() {
	run_fly trigger-job --job deploy-test-vault/read --watch || die "the build of deploy-test-vault/read failed; its output is above"
}

step_vault() {
	local unit mount=MOUNT prefix
	unit=$(web_unit)
	session
	run juju deploy --model "$MODEL" vault --channel "$VAULT_CHANNEL"
	wait_until "Vault answers" vault_up
	echo "  open Vault, and run: juju run vault/leader authorize-charm with its token as a secret"
	[[ -n $DRY ]] || open_vault
	set_vault_pipeline
	check "a build has no value before the relation" no_value
	run_retried juju integrate --model "$MODEL" "$WEB_APP:vault-kv" vault:vault-kv
	for key in URL AUTH_BACKEND AUTH_PARAM PATH_PREFIX; do
		wait_until "CONCOURSE_VAULT_$key is there" has_key "$unit" "CONCOURSE_VAULT_$key"
	done
	check "AppRole lets $unit in" approle_login "$unit"
	if [[ -z $DRY ]]; then
		prefix=$(on_unit "$unit" "sed -n 's|^CONCOURSE_VAULT_PATH_PREFIX=||p' $ENV_FILE")
		mount=$(tr -d "\"'" <<<"${prefix#*/}")
		[[ -n $mount ]] || die "CONCOURSE_VAULT_PATH_PREFIX is empty on $unit"
		put_secret "$mount" main/deploy-test after
	fi
	wait_until "all units are active" ready ""
	session
	reads_vault
	run juju config --model "$MODEL" "$WEB_APP" vault-path-prefix=/deploy-test secret-cache-enabled=false
	wait_until "the prefix is the option's" has_line "$unit" CONCOURSE_VAULT_PATH_PREFIX=/deploy-test
	run juju config --model "$MODEL" "$WEB_APP" --reset vault-path-prefix,secret-cache-enabled
	wait_until "the prefix is the relation's again" has_line "$unit" "CONCOURSE_VAULT_PATH_PREFIX=/$mount"
	wait_until "all units are active" ready ""
	session
	reads_vault
	run_fly destroy-pipeline --non-interactive --pipeline deploy-test-vault
	run juju remove-relation --model "$MODEL" "$WEB_APP:vault-kv" vault:vault-kv
	wait_until "what Vault gave is gone" lacks_key "$unit" CONCOURSE_VAULT_URL=
	run juju remove-application --model "$MODEL" --no-prompt --destroy-storage vault
	run juju remove-secret --model "$MODEL" deploy-test-vault
	wait_until "all units are active" ready ""
}
