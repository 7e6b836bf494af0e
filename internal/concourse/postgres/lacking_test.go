package postgres

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each remedy is run by a superuser as it is printed, so names are quoted, and no user gets a
// superuser's role.
func TestRemedyGivesOnlyWhatIsMissing(t *testing.T) {
	owner := object{owner: "old", kind: "owner", name: "build_events"}
	super := object{owner: "postgres", super: true, kind: "owner", name: "build_events"}
	table := object{owner: "old", kind: "table", name: "builds"}
	other := object{owner: "third", kind: "table", name: "jobs"}
	sequence := object{owner: "old", kind: "sequence", name: "builds_id_seq"}
	schema := object{owner: "old", kind: "schema", name: "public"}
	const (
		tables    = `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "ci"`
		sequences = `GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO "ci"`
		create    = `GRANT USAGE, CREATE ON SCHEMA public TO "ci"`
	)
	for name, c := range map[string]struct {
		missing []object
		since16 bool
		want    string
	}{
		"nothing":                  {nil, true, ""},
		"a table":                  {[]object{table}, true, tables + "; " + sequences},
		"a sequence":               {[]object{sequence}, true, sequences},
		"the schema":               {[]object{schema}, true, create},
		"the owner's rights":       {[]object{owner}, true, `GRANT "old" TO "ci" WITH INHERIT TRUE`},
		"before PostgreSQL 16":     {[]object{owner}, false, `GRANT "old" TO "ci"; ALTER ROLE "ci" INHERIT`},
		"the owner's tables too":   {[]object{owner, table, sequence}, true, `GRANT "old" TO "ci" WITH INHERIT TRUE`},
		"also another's":           {[]object{owner, table, other}, true, `GRANT "old" TO "ci" WITH INHERIT TRUE; ` + tables + "; " + sequences},
		"the owner and the schema": {[]object{owner, schema}, true, `GRANT "old" TO "ci" WITH INHERIT TRUE; ` + create},
	} {
		require.Equal(t, c.want, remedy(`"ci"`, c.since16, c.missing), name)
	}
	got := remedy(`"ci"`, true, []object{super})
	require.Contains(t, got, `pg_get_userbyid(relowner) = 'postgres'`)
	require.Contains(t, got, `OWNER TO %s', t, '"ci"')`)
	require.NotContains(t, got, "GRANT")
}

func TestMostImportantObjectIsNamed(t *testing.T) {
	all := []object{{kind: "schema"}, {kind: "sequence", owner: "o", name: "s"}, {kind: "table", owner: "o", name: "t"}, {kind: "owner", owner: "o"}}
	for _, want := range []string{"they belong to o, and it lacks that role's rights", "it can't use t of o", "it can't use s of o",
		"it can't make tables in the schema public"} {
		require.Equal(t, want, slices.MinFunc(all, byImportance).why())
		all = all[:len(all)-1]
	}
}
