package journeys

// journey describes how the commands of a page are run.
type journey struct {
	page    string
	percent int // of its commands that must be run
	// from and to limit the part of the page: from its heading on, and until before it.
	from, to string
	// prepare has scripts of root for what a section or a command takes for granted, by its
	// heading or its line. "" is for the page.
	prepare map[string]string
	// values are the machine's instead of the page's examples.
	values map[string]string
	// tasks are beginnings of commands that need a task or the web's API, which a real release
	// alone has. An output of the page then shows tasks, too.
	tasks []string
	// serves has the check by a client of commands that serve until they are killed, by their
	// beginnings.
	serves map[string]string
}

// route lists the pages in the order in which one machine runs them.
var route = []journey{
	{page: "docs/tutorial/runners.md", percent: 100, prepare: map[string]string{
		"gpukit run --gpus 2 --wait 0 -- pytest || echo \"exit status $?\"": heldByTraining,
		"## Quarantine a GPU":      endsTraining,
		"sudo gpukit gpu return 0": runsElsewhere,
		"## Connect a runner":      runner}},
	{page: "docs/how-to/docker-podman.md", percent: 80, to: besideConcourse, prepare: map[string]string{
		"": images, "## Podman without root": rootless, "sudo gpukit gpu return 0": refusesQuarantined}},
	{page: "docs/how-to/exporter.md", percent: 100},
	{page: "docs/tutorial/own-machine.md", percent: 80, prepare: map[string]string{
		"": "cp /etc/concourse-ci-machine/config.yaml /root/config.yaml"}},
	{page: "docs/tutorial/first-rocm-task.md", percent: 50},
	{page: "docs/how-to/share-gpus.md", percent: 100, prepare: map[string]string{"## See and end leases": train},
		values: map[string]string{"--build 7": "--build 1"}, tasks: []string{"fly"}},
	{page: "docs/how-to/docker-podman.md", percent: 80, from: besideConcourse},
	{page: "docs/how-to/why-did-my-build-fail.md", percent: 100, prepare: map[string]string{"": failure},
		values: map[string]string{"4f1c0000": "$(cat /tmp/task)"}, tasks: []string{"juju run rocm-worker/0 why task="}},
	{page: "docs/how-to/quarantined-gpu.md", percent: 90, prepare: map[string]string{
		"## Return it now":                         "concourse-ci-machine gpu quarantine 0 noise",
		"sudo dispatch gpu quarantine 0 noisy fan": "concourse-ci-machine gpu return 0",
		"## A warning on a GPU that is in service": "concourse-ci-machine set gpu-health-check=/usr/bin/true",
		"## Test GPUs with a program":              "cp /usr/bin/true /home/me/concourse-ci-machine/gpu-health-check",
		"sudo dispatch gpu check 0":                "concourse-ci-machine gpu quarantine 0 noise",
		"## Turn quarantine off":                   "concourse-ci-machine gpu return 0",
	}},
	{page: "docs/how-to/measure.md", percent: 100},
	{page: "docs/how-to/fetch-once.md", percent: 60, prepare: map[string]string{"": certificate}},
	{page: "docs/how-to/upgrade.md", percent: 50, values: map[string]string{"<token or URI of a Juju secret>": "ghp_0"}},
	{page: "docs/how-to/monitoring.md", percent: 20},
	{page: "docs/how-to/protect-metrics.md", percent: 100, prepare: map[string]string{"": exporterKey},
		serves: map[string]string{"/opt/concourse-ci-machine/bin/rocm-exporter": refusesStrangers}},
	{page: "docs/how-to/without-internet.md", percent: 60, prepare: map[string]string{
		"": "concourse-ci-machine reset auto-upgrade github-token"},
		tasks: []string{"juju run rocm-worker/0 check-status"}},
	{page: "docs/how-to/troubleshoot.md", percent: 80, prepare: map[string]string{
		"": "concourse-ci-machine reset http-proxy https-proxy no-proxy"}},
	// The machine has no CI after it.
	{page: "docs/how-to/look-after-one-machine.md", percent: 50, prepare: map[string]string{
		"": "install -m 600 /root/config.yaml /etc/concourse-ci-machine/config.yaml\n" +
			"concourse-ci-machine up\necho 'CREATE TABLE restored ()' | " + psql, "## Restore": "concourse-ci-machine purge --yes",
		"## Give a second team a login": "echo 'TABLE restored' | " + psql}},
}

// besideConcourse names the section with commands that need a worker.
const besideConcourse = "## Beside Concourse"

const (
	// train starts a task of a pipeline, and waits until it holds the page's GPU.
	train = `command -v fly || exit 0
cat >/tmp/main.yml <<'END'
jobs:
- name: train
  plan:
  - task: train
    tags: [gpu]
    config:
      platform: linux
      image_resource: {type: registry-image, source: {repository: rocm/rocm-terminal}}
      params: {AMD_VISIBLE_DEVICES: "0"}
      run: {path: sleep, args: [1h]}
- name: fail
  plan:
  - task: fail
    tags: [gpu]
    config:
      platform: linux
      image_resource: {type: registry-image, source: {repository: rocm/rocm-terminal}}
      run: {path: "false"}
END
runuser -l me -c 'fly -t ci set-pipeline -n -p main -c /tmp/main.yml
fly -t ci unpause-pipeline -p main
fly -t ci trigger-job -j main/train'
timeout 300 sh -c 'until concourse-ci-machine gpu status | grep -q ^held; do sleep 0.5; done'`
	// failure runs a task that fails, and notes its container.
	failure = `command -v fly || exit 0
! runuser -l me -c 'fly -t ci trigger-job -j main/fail -w'
runuser -l me -c 'fly -t ci containers --json' |
	jq -r '.[] | select(.type == "task" and .job_name == "fail") | .id' >/tmp/task
timeout 60 sh -c 'until concourse-ci-machine why "$(cat /tmp/task)" | grep -q "^verdict"; do sleep 0.5; done' || {
	concourse-ci-machine why "$(cat /tmp/task)"
	exit 1
}`
	// rootless opens the GPUs to the user. A runtime that podman has no record of needs cgroups.
	rootless = `chown me /dev/kfd /dev/dri/*
sed -i /cgroups/d /etc/containers/containers.conf`
	// heldByTraining waits for the run that the page starts beside its next command.
	heldByTraining = `timeout 300 sh -c 'until gpukit gpu status | tee /tmp/status | grep -q training; do sleep 0.2; done' || {
	cat /tmp/status /home/me/training.log
	exit 1
}
cat /tmp/status`
	// endsTraining ends that run as the shell's kill does, which its user's next shell can't.
	endsTraining = `start-stop-daemon --stop --user me --name gpukit
timeout 300 sh -c 'while gpukit gpu status | grep -q training; do sleep 0.2; done'`
	// runsElsewhere checks that a quarantined GPU is named with the reason, and refused to runs.
	runsElsewhere = `gpukit gpu status | grep 'by hand: noisy fan'
runuser -l me -c 'gpukit run --wait 0 -- true' 2>&1 | grep 'has GPU 1 '
! runuser -l me -c 'gpukit run --gpu-id 0 --wait 0 -- true'`
	// runner makes the file by which a folder of GitHub's runner is recognized.
	runner = `install -D -o me -g me /dev/null /home/me/actions-runner/config.sh
chown me:me /home/me/actions-runner`
	// refusesQuarantined checks that a container does not get a quarantined GPU, and gets another one.
	refusesQuarantined = `refused() {
	if "$@" 2>/tmp/refused; then exit 1; fi
	grep -q 'has been quarantined since .* by hand: noisy fan' /tmp/refused || { cat /tmp/refused; exit 1; }
}
refused docker run --rm --runtime amd -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal true
refused podman run --rm --runtime /usr/bin/runc-amd-wrapper -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal true
docker run --rm --runtime amd -e GPU_COUNT=1 rocm/rocm-terminal rocminfo
podman run --rm --runtime /usr/bin/runc-amd-wrapper -e GPU_COUNT=1 rocm/rocm-terminal rocminfo`
	// certificate makes the private certificate of a mirror.
	certificate = `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=mirror -days 9 -keyout /dev/null \
	-out /home/me/concourse-ci-machine/ca.pem 2>/dev/null`
	// exporterKey makes the key and certificate of an exporter.
	exporterKey = `mkdir /etc/rocm-exporter
cd /etc/rocm-exporter
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=exporter -days 9 -keyout exporter.key -out exporter.crt 2>/dev/null
chown me exporter.key`
	// psql runs SQL in Concourse's database.
	psql = `runuser -u postgres -- psql -v ON_ERROR_STOP=1 \
	--port=$(sed -n 's/^port = \([0-9]*\).*/\1/p' /etc/postgresql/*/concourse_*/postgresql.conf) concourse`
	// refusesStrangers checks for TLS and the question for a password.
	refusesStrangers = `[ "$(curl -sk -o /dev/null -w '%{http_code}' https://127.0.0.1:9443/metrics)" = 401 ]`
	// images gives root's and the user's engines the image of the page, because there is no
	// registry.
	images = `ln -s busybox /bin/kill # docker's service needs one
mkdir -p /etc/containers
printf '[containers]\ncgroups = "disabled"\npids_limit = 0\n' >/etc/containers/containers.conf # it has no controllers
docker import BUILT/image.tar rocm/rocm-terminal
podman import BUILT/image.tar docker.io/rocm/rocm-terminal:latest
runuser -l me -c 'podman import BUILT/image.tar docker.io/rocm/rocm-terminal:latest'`
)
