package agent

import (
	"os"
	"path/filepath"
	"time"

	charmresource "github.com/juju/charm/v12/resource"
	"github.com/juju/errors"
	"github.com/juju/names/v5"

	apiservererrors "github.com/juju/juju/apiserver/errors"
	"github.com/juju/juju/core/secrets"
	"github.com/juju/juju/rpc/params"
	jujuprovider "github.com/juju/juju/secrets/provider/juju"
)

// network is NetworkInfoIAAS.ProcessAPIRequest for a machine with one interface:
// endpoints that the charm does not have are refused.
func (u *Unit) network(a params.NetworkInfoParams) params.NetworkInfoResults {
	out := params.NetworkInfoResults{Results: map[string]params.NetworkInfoResult{}}
	meta := u.app.charm.Meta()
	for _, name := range a.Endpoints {
		_, bound := meta.CombinedRelations()[name]
		if _, extra := meta.ExtraBindings[name]; !bound && !extra && name != "juju-info" {
			err := errors.NotValidf("undefined for unit charm: endpoint %q", name)
			out.Results[name] = params.NetworkInfoResult{Error: apiservererrors.ServerError(err)}
			continue
		}
		out.Results[name] = params.NetworkInfoResult{
			Info: []params.NetworkInfo{{InterfaceName: "eth0", MACAddress: "00:16:3e:00:00:01",
				Addresses: []params.InterfaceAddress{{Address: u.Address, CIDR: u.Address + "/24"}}}},
			IngressAddresses: []string{u.Address}, EgressSubnets: []string{u.Address + "/32"},
		}
	}
	return out
}

// goal is UniterAPI.oneGoalState, which leaves peer relations out.
func (u *Unit) goal() *params.GoalState {
	now := time.Unix(0, 0)
	gs := &params.GoalState{Units: params.UnitsGoalState{}, Relations: map[string]params.UnitsGoalState{}}
	for _, o := range u.app.units {
		gs.Units[o.Name] = params.GoalStateStatus{Status: o.Status.Status, Since: &now}
	}
	for _, r := range u.model.relations {
		e, ours := r.end(u.app.Name)
		if !ours || r.peer() {
			continue
		}
		at := params.UnitsGoalState{r.remote(u.app.Name): {Status: "joined", Since: &now}}
		for name := range r.Members {
			if appOf(name) != u.app.Name {
				at[name] = params.GoalStateStatus{Status: "active", Since: &now}
			}
		}
		gs.Relations[e.Endpoint] = at
	}
	return gs
}

// relationResult is UniterAPI.getOneRelation and RelationById.
func (u *Unit) relationResult(call string, in []byte) params.RelationResultsV2 {
	var r *Relation
	if call == "Uniter.RelationById" {
		r = u.model.relation(decode[params.RelationIds](in).RelationIds[0])
	} else {
		r = u.model.relationByTag(decode[params.RelationUnits](in).RelationUnits[0].Relation)
	}
	var out params.RelationResultV2
	if _, ours := r.endOrNone(u.app.Name); !ours {
		out.Error = apiservererrors.ServerError(apiservererrors.ErrPerm)
	} else {
		out = r.result(u.app.Name)
	}
	return params.RelationResultsV2{Results: []params.RelationResultV2{out}}
}

// settings are the three ways to read a bag; a relation that is not the unit's, or removed,
// is refused.
func (u *Unit) settings(call string, in []byte) any {
	m := u.model
	one := func(bag map[string]string, err error) params.SettingsResult {
		if err != nil {
			return params.SettingsResult{Error: apiservererrors.ServerError(err)}
		}
		return params.SettingsResult{Settings: bag}
	}
	ours := func(tag string) *Relation {
		r := m.relationByTag(tag)
		if _, ours := r.endOrNone(u.app.Name); !ours {
			return nil
		}
		return r
	}
	var out params.SettingsResult
	switch call {
	case "Uniter.ReadSettings":
		a := decode[params.RelationUnits](in).RelationUnits[0]
		r := ours(a.Relation)
		if r == nil || a.Unit != unitTag(u.Name) {
			out = one(nil, apiservererrors.ErrPerm)
		} else {
			out = one(r.bags[u.Name], nil)
		}
	case "Uniter.ReadLocalApplicationSettings":
		a := decode[params.RelationUnit](in)
		r := ours(a.Relation)
		if r == nil || a.Unit != unitTag(u.Name) {
			return one(nil, apiservererrors.ErrPerm)
		}
		return one(u.readLocalApplication(r))
	default:
		a := decode[params.RelationUnitPairs](in).RelationUnitPairs[0]
		tag, err := names.ParseTag(a.RemoteUnit)
		r := ours(a.Relation)
		if err != nil || r == nil {
			out = one(nil, apiservererrors.ErrPerm)
		} else {
			out = one(u.readRemote(r, tag))
		}
	}
	return params.SettingsResults{Results: []params.SettingsResult{out}}
}

func (u *Unit) actions(call string, in []byte) (any, error) {
	missing := &params.Error{Code: params.CodeNotFound, Message: "action not found"}
	switch call {
	case "Uniter.Actions":
		tag := decode[params.Entities](in).Entities[0].Tag
		a := u.model.action(tag)
		if a == nil {
			return params.ActionResults{Results: []params.ActionResult{{Error: missing}}}, nil
		}
		return params.ActionResults{Results: []params.ActionResult{{Action: &params.Action{Tag: tag, Name: a.Name, Parameters: a.Params}}}}, nil
	case "Uniter.BeginActions":
		if a := u.model.action(decode[params.Entities](in).Entities[0].Tag); a != nil {
			a.Status = params.ActionRunning
			return done(nil), nil
		}
	case "Uniter.LogActionsMessages":
		l := decode[params.ActionMessageParams](in).Messages[0]
		if a := u.model.action(l.Tag); a != nil {
			a.Log = append(a.Log, l.Value)
			return done(nil), nil
		}
	case "Uniter.FinishActions":
		f := decode[params.ActionExecutionResults](in).Results[0]
		if a := u.model.action(f.ActionTag); a != nil {
			a.Status, a.Message, a.Results = f.Status, f.Message, f.Results
			return done(nil), nil
		}
	}
	return params.ErrorResults{Results: []params.ErrorResult{{Error: missing}}}, nil
}

func (u *Unit) secretCall(call string, in []byte) (any, error) {
	m := u.model
	switch call {
	case "SecretsManager.CreateSecretURIs":
		var out params.StringResults
		for range decode[params.CreateSecretURIsArg](in).Count {
			out.Results = append(out.Results, params.StringResult{Result: secrets.NewURI().WithSource(m.uuid).String()})
		}
		return out, nil
	case "SecretsManager.GetSecretMetadata":
		return params.ListSecretMetadataResults{Results: u.metadata()}, nil
	case "SecretsManager.GetSecretBackendConfigs":
		id := jujuprovider.BackendName
		return params.SecretBackendConfigResults{ActiveID: id, Results: map[string]params.SecretBackendConfigResult{
			id: {ModelUUID: m.uuid, ModelName: "test", Config: params.SecretBackendConfig{BackendType: jujuprovider.BackendType}}}}, nil
	case "SecretsManager.GetSecretContentInfo":
		content, err := u.getContent(decode[params.GetSecretContentArgs](in).Args[0])
		return params.SecretContentResults{Results: []params.SecretContentResult{{
			Content: params.SecretContentParams{Data: content}, Error: apiservererrors.ServerError(err)}}}, nil
	case "SecretsManager.GetSecretRevisionContentInfo":
		a := decode[params.SecretRevisionArg](in)
		s, err := u.manage(a.URI)
		if err != nil {
			return nil, err
		}
		var out params.SecretContentResults
		for _, n := range a.Revisions {
			var one params.SecretContentResult
			if n < 1 || n > len(s.Revisions) || s.Revisions[n-1] == nil {
				one.Error = apiservererrors.ServerError(errors.NotFoundf("secret revision \"%s/%d\"", s.ID, n))
			} else {
				one.Content.Data = s.Revisions[n-1]
			}
			out.Results = append(out.Results, one)
		}
		return out, nil
	}
	s, err := u.manage(decode[params.SecretRevisionArgs](in).SecretURIs[0])
	if err != nil {
		return nil, err
	}
	out := params.SecretRevisionIDsResult{URI: s.uri(m).String()}
	for i, content := range s.Revisions {
		if content != nil {
			out.Revisions = append(out.Revisions, i+1)
		}
	}
	return params.SecretRevisionIDsResults{Results: []params.SecretRevisionIDsResult{out}}, nil
}

// resource reports an attached resource what the agent checks the download by.
func (u *Unit) resource(name string) (any, error) {
	meta, declared := u.app.charm.Meta().Resources[name]
	file := u.app.Resources[name]
	f, err := os.Open(file)
	if !declared || err != nil {
		err := errors.NotFoundf("resource %q", name)
		return params.UnitResourcesResult{Resources: []params.UnitResourceResult{{ErrorResult: params.ErrorResult{Error: apiservererrors.ServerError(err)}}}}, nil
	}
	defer f.Close()
	sum, err := charmresource.GenerateFingerprint(f)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	return params.UnitResourcesResult{Resources: []params.UnitResourceResult{{Resource: params.Resource{
		CharmResource: params.CharmResource{Name: name, Type: meta.Type.String(), Path: filepath.Base(meta.Path), Origin: "upload", Fingerprint: sum.Bytes(), Size: info.Size()},
		ID:            u.app.Name + "/" + name, ApplicationID: u.app.Name, Username: "admin", Timestamp: info.ModTime(),
	}}}}, nil
}
