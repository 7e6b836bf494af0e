package agent

import (
	"encoding/json"

	"github.com/juju/errors"
	"github.com/juju/names/v5"

	apiservererrors "github.com/juju/juju/apiserver/errors"
	"github.com/juju/juju/core/life"
	"github.com/juju/juju/environs/config"
	"github.com/juju/juju/rpc/params"
)

// answer is the facades. Calls that change something or ask for more than the
// unit's own facts have a method each.
func (u *Unit) answer(call string, in []byte) (any, error) {
	m := u.model
	switch call {
	case "Uniter.CurrentModel":
		return params.ModelResult{Name: "test", UUID: m.uuid, Type: "iaas"}, nil
	case "Uniter.ModelConfig":
		cfg, err := config.New(config.UseDefaults, map[string]any{"name": "test", "uuid": m.uuid, "type": "manual"})
		if err != nil {
			return nil, err
		}
		return params.ModelConfigResult{Config: params.ModelConfig(cfg.AllAttrs())}, nil
	case "Uniter.APIAddresses":
		return params.StringsResult{Result: []string{"10.0.0.1:17070"}}, nil
	case "Uniter.SLALevel", "Uniter.CloudAPIVersion":
		return params.StringResult{}, nil
	case "Uniter.Refresh":
		return params.UnitRefreshResults{Results: []params.UnitRefreshResult{{Life: life.Alive, Resolved: params.ResolvedNone}}}, nil
	case "Uniter.Life":
		return params.LifeResults{Results: []params.LifeResult{{Life: life.Alive}}}, nil
	case "Uniter.AssignedMachine":
		return text(names.NewMachineTag("0").String()), nil
	case "Uniter.AvailabilityZone":
		return text("az1"), nil
	case "Uniter.GetPrincipal":
		return params.StringBoolResults{Results: []params.StringBoolResult{{}}}, nil
	case "Uniter.PrivateAddress", "Uniter.PublicAddress":
		return text(u.Address), nil
	case "Uniter.ConfigSettings":
		return params.ConfigSettingsResults{Results: []params.ConfigSettingsResult{{Settings: params.ConfigSettings(u.app.config)}}}, nil
	case "Uniter.OpenedMachinePortRangesByEndpoint":
		return params.OpenPortRangesByEndpointResults{Results: []params.OpenPortRangesByEndpointResult{{
			UnitPortRanges: map[string][]params.OpenUnitPortRangesByEndpoint{unitTag(u.Name): ranges(u.Ports)}}}}, nil
	case "Uniter.State":
		return params.UnitStateResults{Results: []params.UnitStateResult{{CharmState: u.State}}}, nil
	case "Uniter.WorkloadVersion":
		return text(u.Version), nil
	case "Uniter.SetWorkloadVersion":
		u.Version = decode[params.EntityWorkloadVersions](in).Entities[0].WorkloadVersion
		return done(nil), nil
	case "Uniter.RequestReboot":
		u.Reboots++
		return done(nil), nil
	case "Uniter.UnitStatus":
		return params.StatusResults{Results: []params.StatusResult{{Id: u.Name, Status: u.Status.Status, Info: u.Status.Message}}}, nil
	case "Uniter.SetAgentStatus":
		return done(nil), nil
	case "Uniter.SetUnitStatus":
		a := decode[params.SetStatus](in).Entities[0]
		u.Status = StatusLine{a.Status, a.Info}
		u.Statuses = append(u.Statuses, u.Status)
		return done(nil), nil
	case "Uniter.SetApplicationStatus": // common.ApplicationStatusSetter: the leader alone
		if !u.leads() {
			return done(apiservererrors.ErrPerm), nil
		}
		a := decode[params.SetStatus](in).Entities[0]
		u.app.Status = StatusLine{a.Status, a.Info}
		return done(nil), nil
	case "Uniter.NetworkInfo":
		return u.network(decode[params.NetworkInfoParams](in)), nil
	case "Uniter.GoalStates":
		return params.GoalStateResults{Results: []params.GoalStateResult{{Result: u.goal()}}}, nil
	case "Uniter.Relation", "Uniter.RelationById":
		return u.relationResult(call, in), nil
	case "Uniter.ReadSettings", "Uniter.ReadLocalApplicationSettings", "Uniter.ReadRemoteSettings":
		return u.settings(call, in), nil
	case "Uniter.CommitHookChanges":
		return done(u.commit(decode[params.CommitHookChangesArgs](in).Args[0])), nil
	case "Uniter.UnitStorageAttachments":
		return params.StorageAttachmentIdsResults{Results: []params.StorageAttachmentIdsResult{{}}}, nil
	case "Uniter.Actions", "Uniter.BeginActions", "Uniter.LogActionsMessages", "Uniter.FinishActions":
		return u.actions(call, in)
	case "SecretsManager.CreateSecretURIs", "SecretsManager.GetSecretMetadata", "SecretsManager.GetSecretContentInfo",
		"SecretsManager.GetSecretBackendConfigs", "SecretsManager.GetSecretRevisionContentInfo", "SecretsManager.OwnedSecretRevisions":
		return u.secretCall(call, in)
	case "ResourcesHookContext.GetResourceInfo":
		return u.resource(decode[params.ListUnitResourcesArgs](in).ResourceNames[0])
	case "PayloadsHookContext.List":
		return params.PayloadResults{}, nil
	}
	return nil, errors.NotImplementedf("%s(%s)", call, in)
}

// decode panics on what Juju's own client can't have sent.
func decode[T any](in []byte) T {
	var v T
	if err := json.Unmarshal(in, &v); err != nil {
		panic(err)
	}
	return v
}

func done(err error) params.ErrorResults {
	return params.ErrorResults{Results: []params.ErrorResult{{Error: apiservererrors.ServerError(err)}}}
}

func text(s string) params.StringResults {
	return params.StringResults{Results: []params.StringResult{{Result: s}}}
}
