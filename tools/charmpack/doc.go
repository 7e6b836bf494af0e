// Package charmpack makes the charm that Juju deploys out of this tree: a zip
// with a fixed list of files, checked against what Juju 3.6 accepts. It never
// builds anything and never ships a file that the list does not name.
//
// What Juju does with the files (github.com/juju/juju internal/charm/worker/uniter,
// github.com/juju/charm/v12):
//
//   - `dispatch` at the root is started for every hook and action, with the
//     name in JUJU_DISPATCH_PATH (hooks/install, actions/plan). As long as it
//     is there nothing in hooks/ is looked at by the unit agent.
//   - hooks/ is for people and tools that start a hook by name. Each file there
//     is a link to one script of a few lines, which sets JUJU_DISPATCH_PATH and
//     becomes ../dispatch.
//   - metadata.yaml is required. manifest.yaml makes the charm "format v2"; of
//     its keys Juju reads only bases (name, channel, architectures), so that is
//     all that is written. charmcraft adds its own version and start time.
//   - revision holds a number, which the controller replaces at each deploy or
//     refresh of a local charm; the first 100 characters of version's first
//     line are what `juju status --format yaml` shows as charm-version.
//   - Unpacking keeps permission bits and relative links that stay inside.
package charmpack
