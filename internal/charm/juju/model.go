package juju

import "context"

// Model is the unit's view of its model. Tools reads it from a Juju controller. A machine
// without Juju reads it from its own files.
type Model interface {
	Config(ctx context.Context) (map[string]any, error)
	IsLeader(ctx context.Context) (bool, error)
	ResourceGet(ctx context.Context, name string) (path string, err error)
	NetworkGet(ctx context.Context, binding string) (Network, error)

	RelationIDs(ctx context.Context, endpoint string) ([]string, error)
	RelationUnits(ctx context.Context, id string) ([]string, error)
	RelationRemoteApp(ctx context.Context, id string) (string, error)
	RelationGet(ctx context.Context, id, unit string) (map[string]string, error)
	RelationGetApp(ctx context.Context, id, app string) (map[string]string, error)
	RelationSet(ctx context.Context, id string, kv map[string]string) error
	RelationSetApp(ctx context.Context, id string, kv map[string]string) error

	SecretGet(ctx context.Context, id string) (map[string]string, error)
	SecretRefresh(ctx context.Context, id string) (map[string]string, error)
	SecretPeek(ctx context.Context, id string) (map[string]string, error)
	SecretAdd(ctx context.Context, s Secret) (id string, err error)
	SecretSet(ctx context.Context, id string, s Secret) error

	OpenPort(ctx context.Context, p Port) error
	ClosePort(ctx context.Context, p Port) error
	OpenedPorts(ctx context.Context) ([]Port, error)

	StatusSet(ctx context.Context, s Status, message string) error
	ApplicationVersionSet(ctx context.Context, version string) error
	Log(ctx context.Context, level Level, message string) error
	Reboot(ctx context.Context) error

	ActionGet(ctx context.Context) (map[string]any, error)
	ActionSet(ctx context.Context, results map[string]any) error
	ActionFail(ctx context.Context, message string) error
	ActionLog(ctx context.Context, message string) error
}

var _ Model = (*Tools)(nil)
