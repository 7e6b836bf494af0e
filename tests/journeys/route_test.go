package journeys

// journey is a page with commands that are run.
type journey struct {
	page    string
	percent int // of its commands that must be run
	// prepare has scripts of root for what a section takes for granted, by its heading. "" is
	// for the page.
	prepare map[string]string
	// values are the machine's instead of the page's examples.
	values map[string]string
}

// route is the order of the pages on one machine. Their juju is a stand-in for its client: the
// options of an application and the actions of a unit are the machine's.
var route = []journey{
	{page: "docs/tutorial/own-machine.md", percent: 80},
	{page: "docs/tutorial/first-rocm-task.md", percent: 45},
	{page: "docs/how-to/share-gpus.md", percent: 100, values: map[string]string{"--build 7": "--build 1"}},
	{page: "docs/how-to/why-did-my-build-fail.md", percent: 100},
	{page: "docs/how-to/withheld-gpu.md", percent: 80, prepare: map[string]string{
		"## Return it now":                         "concourse-ci-machine gpu withhold 0 noise",
		"## A warning on a GPU that is in service": "concourse-ci-machine set gpu-proof=/usr/bin/true",
		"## Test GPUs with a program":              "cp /usr/bin/true /home/me/concourse-ci-machine/gpu-proof",
	}, values: map[string]string{"0000:03:00.0": "0000:23:00.0"}},
	{page: "docs/how-to/measure.md", percent: 100},
	{page: "docs/how-to/fetch-once.md", percent: 50, prepare: map[string]string{"": certificate}},
	{page: "docs/how-to/upgrade.md", percent: 35, values: map[string]string{"<token or URI of a Juju secret>": "ghp_0"}},
	{page: "docs/how-to/monitoring.md", percent: 25, prepare: map[string]string{
		"## Prometheus without Juju": "mkdir -p /etc/prometheus"}},
	{page: "docs/how-to/without-internet.md", percent: 50},
	{page: "docs/how-to/troubleshoot.md", percent: 80},
	{page: "docs/how-to/docker-podman.md", percent: 80, prepare: map[string]string{
		"": images, "## Beside Concourse": "concourse-ci-machine up"}},
}

const (
	// images gives both engines the image of the page, because there is no registry.
	images = `concourse-ci-machine down
docker import BUILT/image.tar rocm/rocm-terminal
runuser -l me -c 'podman import BUILT/image.tar docker.io/rocm/rocm-terminal:latest'`
	// certificate makes the private certificate of a mirror.
	certificate = `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=mirror -days 9 -keyout /dev/null \
	-out /home/me/concourse-ci-machine/ca.pem 2>/dev/null`
)
