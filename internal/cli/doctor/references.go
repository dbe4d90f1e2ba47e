// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// The kinds of References.
const (
	KindServiceAccount = "ServiceAccount"
	KindSecret         = "Secret"
	KindConfigMap      = "ConfigMap"
	KindVolumeClaim    = "PersistentVolumeClaim"
	KindLocalQueue     = "LocalQueue"
)

// labelLocalQueue is the label with which a Job names a LocalQueue of Kueue.
const labelLocalQueue = "kueue.x-k8s.io/queue-name"

// State says whether the object of a Reference exists.
type State int

// The states.
const (
	// Exists means that the object is there, with the key.
	Exists State = iota
	// Absent means that it is not there.
	Absent
	// LacksKey means that it is there without the key.
	LacksKey
	// Unreadable means that the user may not read it.
	Unreadable
	// NoKind means that the cluster has no such kind of objects.
	NoKind
)

// Reference is an object that a ScaledJob needs.
type Reference struct {
	Kind, Name string
	// Key is a key in it; empty if none is named.
	Key string
	// From is the field that names it.
	From string
	// Advisory is true if Pods may start without it.
	Advisory bool
	State    State
}

// ReferencesOf returns the objects that a ScaledJob needs, each once. Optional ones are left out.
func ReferencesOf(sj *scaledjobv1.ScaledJob) []Reference {
	var all collector
	if template := sj.Spec.JobTemplate; template != nil {
		if name := template.Labels[labelLocalQueue]; name != "" {
			all.add(Reference{Kind: KindLocalQueue, Name: name, From: "the label " + labelLocalQueue + " of spec.jobTemplate"})
		}
		all.pod(&template.Spec.Template.Spec)
	}
	if redis := sj.Spec.Redis; redis != nil {
		all.redis("spec.redis", redis.Auth, redis.TLS)
		if redis.Sentinel != nil {
			all.redis("spec.redis.sentinel", redis.Sentinel.Auth, redis.Sentinel.TLS)
		}
	}
	return all
}

type collector []Reference

func (c *collector) add(found Reference) {
	if found.Name != "" && !slices.ContainsFunc(*c, func(is Reference) bool {
		return is.Kind == found.Kind && is.Name == found.Name && is.Key == found.Key
	}) {
		*c = append(*c, found)
	}
}

// needed adds an object unless it is optional.
func (c *collector) needed(kind, name, key, from string, optional *bool) {
	if optional == nil || !*optional {
		c.add(Reference{Kind: kind, Name: name, Key: key, From: from})
	}
}

func (c *collector) redis(at string, auth *scaledjobv1.RedisAuth, tls *scaledjobv1.RedisTLS) {
	secret := func(named *scaledjobv1.SecretKeyReference, key, field string) {
		if named != nil {
			c.add(Reference{Kind: KindSecret, Name: named.Name, Key: cmp.Or(named.Key, key), From: at + field})
		}
	}
	if auth != nil {
		secret(auth.PasswordSecretRef, scaledjobv1.DefaultPasswordKey, ".auth.passwordSecretRef")
	}
	if tls != nil {
		secret(tls.CASecretRef, scaledjobv1.DefaultCAKey, ".tls.caSecretRef")
		secret(tls.CertSecretRef, scaledjobv1.DefaultCertificateKey, ".tls.certSecretRef")
		secret(tls.KeySecretRef, scaledjobv1.DefaultPrivateKeyKey, ".tls.keySecretRef")
	}
}

func (c *collector) pod(pod *corev1.PodSpec) {
	c.add(Reference{Kind: KindServiceAccount, Name: cmp.Or(pod.ServiceAccountName, "default"), From: "serviceAccountName"})
	for _, each := range pod.ImagePullSecrets {
		c.add(Reference{Kind: KindSecret, Name: each.Name, From: "imagePullSecrets", Advisory: true})
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		c.container(&container)
	}
	for i := range pod.Volumes {
		c.volume(&pod.Volumes[i])
	}
}

func (c *collector) container(container *corev1.Container) {
	at := "container " + container.Name
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if from := variable.ValueFrom.SecretKeyRef; from != nil {
			c.needed(KindSecret, from.Name, from.Key, at, from.Optional)
		}
		if from := variable.ValueFrom.ConfigMapKeyRef; from != nil {
			c.needed(KindConfigMap, from.Name, from.Key, at, from.Optional)
		}
	}
	for _, each := range container.EnvFrom {
		if each.SecretRef != nil {
			c.needed(KindSecret, each.SecretRef.Name, "", at, each.SecretRef.Optional)
		}
		if each.ConfigMapRef != nil {
			c.needed(KindConfigMap, each.ConfigMapRef.Name, "", at, each.ConfigMapRef.Optional)
		}
	}
}

func (c *collector) volume(volume *corev1.Volume) {
	at := "volume " + volume.Name
	if from := volume.Secret; from != nil {
		c.items(KindSecret, from.SecretName, at, from.Optional, from.Items)
	}
	if from := volume.ConfigMap; from != nil {
		c.items(KindConfigMap, from.Name, at, from.Optional, from.Items)
	}
	if from := volume.PersistentVolumeClaim; from != nil {
		c.add(Reference{Kind: KindVolumeClaim, Name: from.ClaimName, From: at})
	}
	if volume.Projected == nil {
		return
	}
	for _, source := range volume.Projected.Sources {
		if from := source.Secret; from != nil {
			c.items(KindSecret, from.Name, at, from.Optional, from.Items)
		}
		if from := source.ConfigMap; from != nil {
			c.items(KindConfigMap, from.Name, at, from.Optional, from.Items)
		}
	}
}

// items adds an object, with the keys of a volume.
func (c *collector) items(kind, name, at string, optional *bool, items []corev1.KeyToPath) {
	if len(items) == 0 {
		c.needed(kind, name, "", at, optional)
	}
	for _, item := range items {
		c.needed(kind, name, item.Key, at, optional)
	}
}

func references(f *Facts) []Finding {
	var found []Finding
	for _, each := range f.References {
		if finding, wrong := each.finding(f.Namespace); wrong {
			found = append(found, finding)
		}
	}
	return found
}

func (r *Reference) finding(namespace string) (is Finding, wrong bool) {
	level := Error
	if r.Advisory {
		level = Warning
	}
	switch r.State {
	case Exists:
		return Finding{}, false
	case Absent:
		return Finding{
			level, fmt.Sprintf("There is no %s %q in the namespace; %s names it.", r.Kind, r.Name, r.From),
			fmt.Sprintf("Create it in namespace %s, or name another one.", namespace),
		}, true
	case LacksKey:
		return Finding{
			level, fmt.Sprintf("The %s %q has no key %q; %s names it.", r.Kind, r.Name, r.Key, r.From), "Add the key, or name another one.",
		}, true
	case NoKind:
		return Finding{
			Warning, fmt.Sprintf("The cluster has no kind %s; %s names %q.", r.Kind, r.From, r.Name),
			"Install Kueue (docs/how-to/kueue.md), or remove the label.",
		}, true
	}
	return Finding{Unchecked, fmt.Sprintf("You may not read the %s %q, which %s names.", r.Kind, r.Name, r.From), ""}, true
}

// RedisSecrets returns the Secrets with which the operator connects to Redis.
func (f *Facts) RedisSecrets() []string {
	var names []string
	for _, each := range f.References {
		if strings.HasPrefix(each.From, "spec.redis") && !slices.Contains(names, each.Name) {
			names = append(names, each.Name)
		}
	}
	return names
}
