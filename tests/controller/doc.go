// Package controller tests the charm under a whole Juju: a controller of Juju 4.1 with its
// agents, client and hook tools on a private LXD. Its made-up host has a GPU of AMD and
// one of NVIDIA. A worker is deployed there and given its GPU by scripts/pass-gpu.sh; wrong
// options, secrets, actions, refreshes, attached releases and a unit more follow, and a
// leader with a machine that is lost. With a release of Concourse in CONCOURSE_RELEASE, its
// tarball or the unpacked folder, scripts/deploy-test.sh is run as a user would, and webs
// are lost and workers removed while tasks run. With the Python charm's packed file in
// PREDECESSOR_CHARM as well, a web and a worker of that are taken over, go back and are
// taken over again; the file must hold what it needs of Python, in venv, for the image's
// Python, as nothing can be fetched. Each run first prints which parts are replaced, and by what.
//
// The tests need root and the packages of `make e2e`; `make test-controller` runs them.
// Juju's programs, built of the module proxy's sources, and the machines' image, made of
// Debian's packages, are kept in the user's cache folder. Juju is AGPL-3.0: juju/ is its
// own module that nothing imports, and the programs are never part of the charm.
package controller
