// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/proxy-operator/proxy-operator/hack/operator"
)

// machine is one as its folder or its process shows it.
func machine(name, owner string, pid int) operator.Machine {
	m := operator.Machine{Name: name, PID: pid}
	m.Record.Tags.OwnerUID = owner
	return m
}

func TestEveryProcessIsCounted(t *testing.T) {
	all := []operator.Machine{machine("a", "1", 1), machine("b", "1", 2), machine("c", "2", 0)}
	running := []operator.Machine{machine("a", "1", 1), machine("b", "1", 2), machine("gone", "", 3)}
	require.Equal(t, map[string]count{
		"1": {machines: 2, processes: 2, id: "local://b"},
		"2": {machines: 1, processes: 0, id: "local://c"},
		"":  {processes: 1},
	}, countByOwner(all, running))
}

func TestTheStageOfACreateIsTold(t *testing.T) {
	require.Equal(t, "folder, no record", stage(machine("a", "", 0)))
	require.Equal(t, "record, no process", stage(machine("a", "1", 0)))
	require.Equal(t, "process 7", stage(machine("a", "1", 7)))
}
