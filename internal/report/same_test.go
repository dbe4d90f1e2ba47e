// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"reflect"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Statuses differ if any of their fields does, also one that is added later, but for those that cause no write.
func TestSameStatus(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var status scaledjobv1.ScaledJobStatus
	leaves := fill(reflect.ValueOf(&status).Elem(), "status")
	g.Expect(len(leaves)).To(BeNumerically(">", 20))
	g.Expect(SameStatus(&status, status.DeepCopy())).To(BeTrue())
	g.Expect(SameStatus(&scaledjobv1.ScaledJobStatus{}, &scaledjobv1.ScaledJobStatus{Conditions: []metav1.Condition{}})).To(BeTrue())
	causeNoWrite := regexp.MustCompile(`\.(ClaimedJobs|PendingEntries)\*?$`)
	ignored := 0
	for name, leaf := range leaves {
		before, value := status.DeepCopy(), reflect.New(leaf.Type()).Elem()
		value.Set(leaf)
		leaf.SetZero()
		same := causeNoWrite.MatchString(name)
		if same {
			ignored++
		}
		g.Expect(SameStatus(&status, before)).To(Equal(same), name)
		g.Expect(SameStatus(before, &status)).To(Equal(same), name)
		leaf.Set(value)
		g.Expect(SameStatus(&status, before)).To(BeTrue(), name)
	}
	g.Expect(ignored).To(Equal(6), "the number of Jobs, and the entries of two queues, each with its pointer")
}

// fill gives all fields below a value, and returns them by name.
func fill(value reflect.Value, name string) map[string]reflect.Value {
	leaves := map[string]reflect.Value{name: value}
	add := func(below reflect.Value, name string) {
		maps.Copy(leaves, fill(below, name))
	}
	switch {
	case value.Type() == reflect.TypeFor[metav1.Time]():
		value.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1000, 0))))
	case value.Kind() == reflect.Struct:
		for i := range value.NumField() {
			add(value.Field(i), name+"."+value.Type().Field(i).Name)
		}
	case value.Kind() == reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		add(value.Elem(), name+"*")
	case value.Kind() == reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		add(value.Index(0), name+"[0]")
		add(value.Index(1), name+"[1]")
	case value.Kind() == reflect.String:
		value.SetString(name)
	default:
		value.SetInt(7)
	}
	return leaves
}
