// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// luaTimeout is how long Argo CD lets a health check run.
const luaTimeout = time.Second

// judge asks Argo CD and Flux how healthy an object is.
func judge(ctx context.Context, question Question, live *unstructured.Unstructured, answer *Answer) error {
	found, err := health.GetResourceHealth(live, luaCheck{ctx, question.HealthCheck})
	if err != nil {
		return err
	}
	answer.ArgoCD, answer.Message = string(found.Status), found.Message
	result, err := status.Compute(live)
	if err != nil {
		return err
	}
	answer.Kstatus = result.Status.String()
	answer.Flux, err = question.Expressions.status(live)
	return err
}

// luaCheck is a health check in Lua, run as Argo CD does.
type luaCheck struct {
	ctx    context.Context
	script string
}

// GetResourceHealth implements health.HealthOverride.
func (c luaCheck) GetResourceHealth(object *unstructured.Unstructured) (*health.HealthStatus, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	// Argo CD opens no other library, but for a part of os.
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	ctx, cancel := context.WithTimeout(c.ctx, luaTimeout)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", luaValue(state, object.Object))
	if err := state.DoString(c.script); err != nil {
		return nil, err
	}
	returned, is := state.Get(-1).(*lua.LTable)
	if !is {
		return nil, fmt.Errorf("the health check returns %s", state.Get(-1).Type())
	}
	return &health.HealthStatus{
		Status:  health.HealthStatusCode(lua.LVAsString(returned.RawGetString("status"))),
		Message: lua.LVAsString(returned.RawGetString("message")),
	}, nil
}

// luaValue converts a value of decoded JSON.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(luaValue(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}
