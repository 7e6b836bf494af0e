package charmpack

// The files of a charm as Juju 3.6 reads them (charm/v12 meta.go, config.go, actions.go,
// lxdprofile.go; the last six keys of metadata are Charmhub's). Decoding is strict, because
// Juju ignores unknown keys, and a misspelt one would appear only on a deployed unit.

type metadata struct {
	Name          string                    `yaml:"name"`
	Summary       string                    `yaml:"summary"`
	Description   string                    `yaml:"description"`
	Provides      map[string]relation       `yaml:"provides"`
	Requires      map[string]relation       `yaml:"requires"`
	Peers         map[string]relation       `yaml:"peers"`
	ExtraBindings map[string]any            `yaml:"extra-bindings"`
	Subordinate   bool                      `yaml:"subordinate"`
	Categories    []string                  `yaml:"categories"`
	Tags          []string                  `yaml:"tags"`
	Storage       map[string]map[string]any `yaml:"storage"`
	Resources     map[string]resource       `yaml:"resources"`
	Terms         []string                  `yaml:"terms"`
	Assumes       []any                     `yaml:"assumes"`
	CharmUser     string                    `yaml:"charm-user"`
	DisplayName   string                    `yaml:"display-name"`
	Maintainers   []string                  `yaml:"maintainers"`
	Docs          string                    `yaml:"docs"`
	Issues        any                       `yaml:"issues"`
	Source        any                       `yaml:"source"`
	Website       any                       `yaml:"website"`
}

type relation struct {
	Interface   string `yaml:"interface"`
	Limit       int    `yaml:"limit"`
	Scope       string `yaml:"scope"` // global (also when empty) or container
	Optional    bool   `yaml:"optional"`
	Description string `yaml:"description"` // for Charmhub; Juju ignores it
}

type resource struct {
	Type        string `yaml:"type"`
	Filename    string `yaml:"filename"`
	Description string `yaml:"description"`
}

type config struct {
	Options map[string]struct {
		Type        string `yaml:"type"`
		Description string `yaml:"description"`
		Default     any    `yaml:"default"`
	} `yaml:"options"`
}

type actions map[string]struct {
	Description          string         `yaml:"description"`
	Params               map[string]any `yaml:"params"` // JSON Schema of each parameter
	Required             []string       `yaml:"required"`
	AdditionalProperties *bool          `yaml:"additionalProperties"`
	Parallel             bool           `yaml:"parallel"`
	ExecutionGroup       string         `yaml:"execution-group"`
}

type lxdProfile struct {
	Description string                       `yaml:"description"`
	Config      map[string]string            `yaml:"config"`
	Devices     map[string]map[string]string `yaml:"devices"`
}
