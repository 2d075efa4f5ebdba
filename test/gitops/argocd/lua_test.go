// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const patch = "../../../config/argocd/argocd-cm.yaml"

// health is what a script returns.
type health struct{ status, message string }

// customization is the part of a value of the key resource.customizations that counts here.
type customization struct {
	HealthLua string `json:"health.lua"`
}

// checks are the scripts of the patch by the pattern of the kinds that they are for.
func checks(t *testing.T) map[string]customization {
	t.Helper()
	content, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	var config corev1.ConfigMap
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		t.Fatalf("%s: %v", patch, err)
	}
	scripts := map[string]customization{}
	if err := yaml.UnmarshalStrict([]byte(config.Data["resource.customizations"]), &scripts); err != nil {
		t.Fatalf("%s, resource.customizations: %v", patch, err)
	}
	return scripts
}

// scriptFor is the script of a kind.
func scriptFor(t *testing.T, group, kind string) string {
	t.Helper()
	for pattern, c := range checks(t) {
		matches, err := path.Match(pattern, group+"/"+kind)
		if err != nil {
			t.Fatal(err)
		}
		if matches {
			return c.HealthLua
		}
	}
	t.Fatalf("no health check is for %s/%s", group, kind)
	return ""
}

// judge runs a script as Argo CD does: in a second at most, the object in the global variable obj, and with the base
// and table libraries. Argo CD has the time of day beside these, which a health check must not depend on.
func judge(ctx context.Context, script string, object map[string]any) (health, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		call := lua.P{Fn: state.NewFunction(open), Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return health{}, fmt.Errorf("opening library %q: %w", name, err)
		}
	}
	state.SetContext(ctx)
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoString(script); err != nil {
		return health{}, fmt.Errorf("running the script: %w", err)
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return health{}, fmt.Errorf("the script returns %s, not a table", state.Get(-1).Type())
	}
	result := health{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}
	switch result.status {
	case "Healthy", "Progressing", "Degraded", "Suspended":
		return result, nil
	}
	return health{}, fmt.Errorf("the script returns %q, which is no health", result.status)
}

// toLua is a value of JSON in Lua.
func toLua(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(toLua(state, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}

// The sandbox of these tests has what Argo CD's has not: a script that uses more must fail here.
func TestSandbox(t *testing.T) {
	for _, script := range []string{
		`return {status = "Healthy", message = os.getenv("HOME")}`, `io.open("/etc/passwd") return {status = "Healthy"}`,
		`return {status = string.upper("Healthy")}`, `while true do end`, `return "Healthy"`, `return {status = "Fine"}`,
	} {
		if got, err := judge(t.Context(), script, map[string]any{}); err == nil {
			t.Errorf("%s: %+v", script, got)
		}
	}
}
