package jujutest

func relationCases() []Case {
	return []Case{
		{Name: "relation ids", Args: words("relation-ids --format=json db"), Stdout: "[\"db:7\"]\n"},
		{Name: "relation ids of an unknown endpoint", Args: words("relation-ids --format=json nosuch"), Stdout: "[]\n"},
		{Name: "relation ids of the hook's endpoint", In: "joined", Args: words("relation-ids"), Stdout: "db:7\n"},
		{Name: "relation ids leave out the broken one", In: "broken", Args: words("relation-ids --format=json db"), Stdout: "[]\n"},
		{Name: "relation ids of no endpoint", Args: words("relation-ids"), Stderr: "ERROR no endpoint name specified\n", Code: 2},
		{Name: "relation units", Args: words("relation-list --format=json -r db:7"), Stdout: "[\"db/0\"]\n"},
		{Name: "relation units by number", Args: words("relation-list --format=json -r 7"), Stdout: "[\"db/0\"]\n"},
		{Name: "relation units of the hook", In: "joined", Args: words("relation-list --format=json"), Stdout: "[\"db/0\"]\n"},
		{Name: "relation without units", Args: words("relation-list --format=json -r cluster:1"), Stdout: "[]\n"},
		{Name: "remote application", Args: words("relation-list --format=json -r db:7 --app"), Stdout: "\"db\"\n"},
		{Name: "relation not named", Args: words("relation-list"), Stderr: "ERROR no relation id specified\n", Code: 2},
		{Name: "relation unknown", Args: words("relation-list -r db:9"), Stderr: "ERROR invalid value \"db:9\" for option -r: relation not found\n", Code: 2},
		{Name: "relation id without a number", Args: words("relation-list --relation db"), Stderr: "ERROR invalid value \"db\" for option --relation: invalid relation id\n", Code: 2},
		{Name: "bag of a unit", Args: words("relation-get --format=json -r db:7 - db/0"), Stdout: `{"host":"10.0.0.9","ingress-address":"10.0.0.9"}` + "\n"},
		{Name: "bag of the hook's unit", In: "joined", Args: words("relation-get --format=json"), Stdout: `{"host":"10.0.0.9","ingress-address":"10.0.0.9"}` + "\n"},
		{Name: "bag of the hook's application", In: "created", Args: words("relation-get --format=json"), Stdout: `{"version":"14"}` + "\n"},
		{Name: "key of a unit", Args: words("relation-get -r db:7 host db/0"), Stdout: "10.0.0.9\n"},
		{Name: "key that is not there", Args: words("relation-get --format=json -r db:7 nosuch db/0"), Stdout: "null\n"},
		{Name: "bag of the remote application", Args: words("relation-get --format=json -r db:7 --app - db"), Stdout: `{"version":"14"}` + "\n"},
		{Name: "application given by its unit", Args: words("relation-get --format=json -r db:7 --app - db/0"), Stdout: `{"version":"14"}` + "\n"},
		{Name: "application where a unit belongs", Args: words("relation-get -r db:7 - db"), Stderr: "ERROR expected unit name, got application name \"db\"\n", Code: 2},
		{Name: "no unit's name", Args: words("relation-get -r db:7 - DB/x"), Stderr: "ERROR invalid unit name \"DB/x\"\n", Code: 2},
		{Name: "nobody's bag", Args: words("relation-get -r db:7"), Stderr: "ERROR no unit or application specified\n", Code: 2},
		{Name: "bag of a unit that is not there", ModelOnly: true, Args: words("relation-get -r db:7 - db/5"), Stderr: "ERROR permission denied\n", Code: 1},
		{Name: "own application's bag as follower", Follower: true, ModelOnly: true, Args: words("relation-get -r db:7 --app - gpu"), Stderr: "ERROR permission denied\n", Code: 1},
		{Name: "own bag with what was set", Before: before("relation-set -r db:7 a=1"), Args: words("relation-get --format=json -r db:7 - gpu/0"), Stdout: `{"a":"1","ingress-address":"10.0.0.5"}` + "\n"},
		{Name: "empty value removes", Before: before("relation-set -r db:7 a=1 ingress-address=", "relation-set -r db:7 a="), Args: words("relation-get --format=json -r db:7 - gpu/0"), Stdout: "{}\n"},
		{Name: "application bag as leader", Before: before("relation-set -r db:7 --app a=1"), Args: words("relation-get --format=json -r db:7 --app - gpu"), Stdout: `{"a":"1"}` + "\n"},
		{Name: "application bag as follower", Follower: true, Args: words("relation-set -r db:7 --app a=1"), Stderr: "ERROR cannot write relation settings\n", Code: 1},
		{Name: "settings from stdin", Args: words("relation-set -r db:7 --file -"), Stdin: "\"a\": \"line\\nline\"\n"},
		{Name: "setting without a value", Args: words("relation-set -r db:7 a"), Stderr: "ERROR expected \"key=value\", got \"a\"\n", Code: 2},
		{Name: "setting without a key", Args: words("relation-set -r db:7 =a"), Stderr: "ERROR expected \"key=value\", got \"=a\"\n", Code: 2},
		{Name: "setting twice", Args: words("relation-set -r db:7 a=1 a=2"), Stderr: "ERROR key \"a\" specified more than once\n", Code: 2},
		{Name: "setting of no relation", Args: words("relation-set a=1"), Stderr: "ERROR no relation id specified\n", Code: 2},
		{Name: "setting in the hook's relation", In: "joined", Args: words("relation-set a=1")},
	}
}

func actionCases() []Case {
	const rule = " must start and end with lowercase alphanumeric, and contain only lowercase alphanumeric and hyphens\n"
	return []Case{
		{Name: "action parameters", In: "action", Args: words("action-get --format=json"), Stdout: `{"deep":{"key":"v"},"level":2}` + "\n"},
		{Name: "action parameter", In: "action", Args: words("action-get --format=json deep.key"), Stdout: "\"v\"\n"},
		{Name: "action parameter that is not there", In: "action", Args: words("action-get --format=json deep.other"), Stdout: "null\n"},
		{Name: "action results", In: "action", Args: []string{"action-set", "outfile.size=10G", "text=two\nlines"}},
		{Name: "action log", In: "action", Args: words("action-log half way")},
		{Name: "action log of nothing", In: "action", Args: words("action-log"), Stderr: "ERROR no message specified\n", Code: 2},
		{Name: "action fails", In: "action", Args: words("action-fail broken")},
		{Name: "action fails without a word", In: "action", Args: words("action-fail")},
		{Name: "action result in capitals", In: "action", Args: words("action-set Foo=1"), Stderr: `ERROR key "Foo"` + rule, Code: 2},
		{Name: "action result with an empty key", In: "action", Args: words("action-set foo..bar=1"), Stderr: `ERROR key ""` + rule, Code: 2},
		{Name: "action result ending in a hyphen", In: "action", Args: words("action-set foo-.bar=1"), Stderr: `ERROR key "foo-"` + rule, Code: 2},
		{Name: "action result that is reserved", In: "action", Args: words("action-set stdout=1"), Stderr: "ERROR cannot set reserved action key \"stdout\"\n", Code: 2},
		{Name: "action result without a value", In: "action", Args: words("action-set foo"), Stderr: "ERROR argument \"foo\" must be of the form key...=value\n", Code: 2},
		{Name: "parameters outside an action", Args: words("action-get"), Stderr: "ERROR not running an action\n", Code: 1},
		{Name: "results outside an action", Args: words("action-set a=1"), Stderr: "ERROR not running an action\n", Code: 1},
		{Name: "failure outside an action", Args: words("action-fail x"), Stderr: "ERROR not running an action\n", Code: 1},
		{Name: "log outside an action", Args: words("action-log x"), Stderr: "ERROR not running an action\n", Code: 1},
	}
}
