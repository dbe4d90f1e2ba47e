// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// maxKeys is the length of the keys in the environments of all containers of a Job together, beyond which they are left
// out. Templates may have thousands of containers, and keys are long.
const maxKeys = 64 << 10

// environment returns the variables that say which ScaledJob a container works for, for so many containers. They do not
// depend on the template, so the hash of the template does not depend on them.
func environment(owner *scaledjobv1.ScaledJob, containers int) []corev1.EnvVar {
	all := []corev1.EnvVar{{Name: scaledjobv1.EnvName, Value: owner.Name}}
	// A variable can't contain a NUL character.
	keys := literal(strings.Join(waitingKeys(owner), "\n"))
	if !strings.Contains(keys, "\x00") && containers*len(keys) <= maxKeys {
		all = append(all, corev1.EnvVar{Name: scaledjobv1.EnvQueue, Value: keys})
	}
	return append(all, corev1.EnvVar{Name: scaledjobv1.EnvThreshold, Value: strconv.FormatInt(owner.Spec.Threshold, 10)})
}

// waitingKeys returns the keys with the messages that wait, each once, in the order of the spec.
func waitingKeys(owner *scaledjobv1.ScaledJob) []string {
	var keys []string
	for _, queue := range owner.Spec.AllQueues() {
		if queue.Role == scaledjobv1.RoleWaiting && !slices.Contains(keys, queue.Name) {
			keys = append(keys, queue.Name)
		}
	}
	return keys
}

// literal returns a value that Kubernetes does not expand: $(NAME) would refer to another variable.
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// withEnvironment sets the variables in each container that does not set them itself. They come first, so that the
// container's own variables, its command and its arguments can refer to them.
func withEnvironment(containers []corev1.Container, variables []corev1.EnvVar) {
	for i := range containers {
		own := containers[i].Env
		missing := slices.DeleteFunc(slices.Clone(variables), func(variable corev1.EnvVar) bool {
			return slices.ContainsFunc(own, func(set corev1.EnvVar) bool { return set.Name == variable.Name })
		})
		containers[i].Env = slices.Concat(missing, own)
	}
}
