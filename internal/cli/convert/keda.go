// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"

	"go.yaml.in/yaml/v3"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// What of KEDA is converted.
const (
	kedaGroup          = "keda.sh"
	kindScaledJob      = "ScaledJob"
	kindScaledObject   = "ScaledObject"
	kindAuth           = "TriggerAuthentication"
	kindClusterAuth    = "ClusterTriggerAuthentication"
	kindSecret         = "Secret"
	kindConfigMap      = "ConfigMap"
	annotationExcluded = "scaledjob.keda.sh/job-excluded-labels"
)

// KEDA's defaults.
const (
	kedaMaxReplicas int32 = 100
	kedaTarget      int64 = 5
)

// kedaScaledJob is KEDA's ScaledJob, as far as it is converted.
type kedaScaledJob struct {
	Metadata struct {
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	} `yaml:"metadata"`
	Spec kedaSpec `yaml:"spec"`
}

type kedaSpec struct {
	PollingInterval            *int32       `yaml:"pollingInterval"`
	SuccessfulJobsHistoryLimit *int32       `yaml:"successfulJobsHistoryLimit"`
	FailedJobsHistoryLimit     *int32       `yaml:"failedJobsHistoryLimit"`
	EnvSourceContainerName     string       `yaml:"envSourceContainerName"`
	MinReplicaCount            *int32       `yaml:"minReplicaCount"`
	MaxReplicaCount            *int32       `yaml:"maxReplicaCount"`
	RolloutStrategy            string       `yaml:"rolloutStrategy"`
	Rollout                    kedaRollout  `yaml:"rollout"`
	ScalingStrategy            kedaStrategy `yaml:"scalingStrategy"`
	Triggers                   []trigger    `yaml:"triggers"`
	JobTargetRef               struct {
		ManualSelector bool      `yaml:"manualSelector"`
		Selector       yaml.Node `yaml:"selector"`
		Template       struct {
			Spec struct {
				RestartPolicy string      `yaml:"restartPolicy"`
				Containers    []container `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"jobTargetRef"`
}

type kedaRollout struct {
	Strategy          string `yaml:"strategy"`
	PropagationPolicy string `yaml:"propagationPolicy"`
}

type kedaStrategy struct {
	Strategy                          string   `yaml:"strategy"`
	CustomScalingQueueLengthDeduction *int32   `yaml:"customScalingQueueLengthDeduction"`
	CustomScalingRunningJobPercentage string   `yaml:"customScalingRunningJobPercentage"`
	PendingPodConditions              []string `yaml:"pendingPodConditions"`
	MultipleScalersCalculation        string   `yaml:"multipleScalersCalculation"`
}

// trigger is a trigger of KEDA. Its parameters are texts, but nobody quotes all numbers.
type trigger struct {
	Type              string            `yaml:"type"`
	Name              string            `yaml:"name"`
	UseCachedMetrics  bool              `yaml:"useCachedMetrics"`
	MetricType        string            `yaml:"metricType"`
	Metadata          map[string]string `yaml:"metadata"`
	AuthenticationRef *struct {
		Name string `yaml:"name"`
		Kind string `yaml:"kind"`
	} `yaml:"authenticationRef"`
}

// container is a container of the Pods, as far as KEDA reads its environment.
type container struct {
	Name string `yaml:"name"`
	Env  []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom *struct {
			SecretKeyRef    *keyRef `yaml:"secretKeyRef"`
			ConfigMapKeyRef *keyRef `yaml:"configMapKeyRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	EnvFrom []struct {
		Prefix       string  `yaml:"prefix"`
		SecretRef    *keyRef `yaml:"secretRef"`
		ConfigMapRef *keyRef `yaml:"configMapRef"`
	} `yaml:"envFrom"`
}

type keyRef struct {
	Name string `yaml:"name"`
	Key  string `yaml:"key"`
}

// target is a parameter of a TriggerAuthentication.
type target struct {
	Parameter     string `yaml:"parameter"`
	Name          string `yaml:"name"`
	Key           string `yaml:"key"`
	ContainerName string `yaml:"containerName"`
}

// knownFields are the fields of KEDA's spec that this package knows, by the path of the object that has them.
var knownFields = map[string][]string{
	"spec": {
		"jobTargetRef", "pollingInterval", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "envSourceContainerName",
		"minReplicaCount", "maxReplicaCount", "rolloutStrategy", "rollout", "scalingStrategy", "triggers",
	},
	"spec.rollout": {"strategy", "propagationPolicy"},
	"spec.scalingStrategy": {
		"strategy", "customScalingQueueLengthDeduction", "customScalingRunningJobPercentage", "pendingPodConditions",
		"multipleScalersCalculation",
	},
}

// isRedis says of a trigger whether it reads lists or streams of Redis, and of which kind of deployment.
func (t *trigger) isRedis() (mode scaledjobv1.RedisMode, stream, is bool) {
	kind, stream := strings.CutSuffix(t.Type, "-streams")
	switch kind {
	case "redis":
		return scaledjobv1.RedisStandalone, stream, true
	case "redis-cluster":
		return scaledjobv1.RedisCluster, stream, true
	case "redis-sentinel":
		return scaledjobv1.RedisSentinel, stream, true
	}
	return "", false, false
}
