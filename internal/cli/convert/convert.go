// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert converts ScaledJobs of KEDA whose triggers are Redis lists or streams into ScaledJobs of this
// project. It is pure: its input are objects as they were given, and it says which further objects it would need.
//
//	manifest.go    reads objects
//	keda.go        the types of KEDA
//	parameters.go  where a parameter of a trigger comes from: its metadata, a TriggerAuthentication or the environment
//	redis.go       the Redis server, credentials and TLS
//	queues.go      the keys that count
//	scaling.go     replicas, strategy, intervals and rollout
//	write.go       the manifest with its comments
//
// A comment is at each field whose meaning differs from that of KEDA. What can't be converted is a [Finding].
package convert

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// Finding is something that was not converted.
type Finding struct {
	// Object is the ScaledJob as its namespace and name, and Source where it comes from.
	Object string `json:"object"`
	Source string `json:"source"`
	// Field is the path of the field in KEDA's object.
	Field string `json:"field"`
	// Text says what is not converted, and what to do.
	Text string `json:"text"`
}

// Reference is an object that is needed and was not given.
type Reference struct {
	Kind, Namespace, Name string
}

// Result is the result of a conversion.
type Result struct {
	// Manifests are the converted ScaledJobs in YAML, in the order of KEDA's.
	Manifests []string
	// Unmapped is everything that was not converted.
	Unmapped []Finding
	// Wanted are the objects that the ScaledJobs refer to and that were not given, each once. What follows from them is in
	// Unmapped too.
	Wanted []Reference
	// Ignored are the objects that are neither converted nor needed.
	Ignored []string
}

// Convert converts the ScaledJobs of KEDA among the objects. The others are those that they refer to.
func Convert(objects []Object) Result {
	var result Result
	all := &given{objects: objects, used: map[*Object]bool{}}
	for i := range objects {
		switch object := &objects[i]; {
		case object.Group() == kedaGroup && object.Kind == kindScaledJob:
			all.used[object] = true
			c := &conversion{object: object, given: all, comments: map[string][]string{}}
			if manifest := c.convert(); manifest != "" {
				result.Manifests = append(result.Manifests, manifest)
			}
			result.Unmapped = append(result.Unmapped, c.unmapped...)
		case object.Group() == kedaGroup && object.Kind == kindScaledObject:
			all.used[object] = true
			result.Unmapped = append(result.Unmapped, Finding{
				Object: title(object.Namespace, object.Name), Source: object.Source, Field: "kind",
				Text: "A ScaledObject scales a Deployment, and this project creates Jobs: keep it with KEDA.",
			})
		}
	}
	result.Wanted = all.wanted
	for i := range objects {
		if object := &objects[i]; !all.used[object] && !isReference(object) {
			result.Ignored = append(result.Ignored, object.String())
		}
	}
	return result
}

// isReference says whether ScaledJobs may refer to the object.
func isReference(object *Object) bool {
	return slices.Contains([]string{kindAuth, kindClusterAuth, kindSecret, kindConfigMap}, object.Kind)
}

// given are the objects that were given.
type given struct {
	objects []Object
	used    map[*Object]bool
	wanted  []Reference
}

// find returns an object; nil if it was not given, which is then noted. An object without a namespace is in any.
func (g *given) find(kind, namespace, name string) *Object {
	for i := range g.objects {
		object := &g.objects[i]
		same := object.Namespace == namespace || object.Namespace == "" || namespace == ""
		if object.Kind == kind && object.Name == name && (same || kind == kindClusterAuth) {
			return object
		}
	}
	if reference := (Reference{kind, namespace, name}); !slices.Contains(g.wanted, reference) {
		g.wanted = append(g.wanted, reference)
	}
	return nil
}

// conversion is that of one ScaledJob.
type conversion struct {
	object *Object
	given  *given
	from   kedaScaledJob
	// to is the spec without the template of the Jobs, and comments are those at its fields, by their paths.
	to       scaledjobv1.ScaledJobSpec
	comments map[string][]string
	unmapped []Finding
}

// comment adds a comment at a field of the new spec, once.
func (c *conversion) comment(path, text string) {
	if !slices.Contains(c.comments[path], text) {
		c.comments[path] = append(c.comments[path], text)
	}
}

// skip notes that a field of KEDA's object is not converted.
func (c *conversion) skip(field, text string) {
	finding := Finding{Object: title(c.object.Namespace, c.object.Name), Source: c.object.Source, Field: field, Text: text}
	if !slices.Contains(c.unmapped, finding) {
		c.unmapped = append(c.unmapped, finding)
	}
}

// convert returns the manifest; empty if nothing of the ScaledJob can be converted.
func (c *conversion) convert() string {
	if err := c.object.node.Decode(&c.from); err != nil {
		c.skip("spec", "The ScaledJob is not one that KEDA accepts: "+why(err)+". Correct it.")
		return ""
	}
	template := child(c.object.node, "spec", "jobTargetRef")
	if template == nil || template.Kind != yaml.MappingNode {
		c.skip("spec.jobTargetRef", "There is no template of the Jobs. Add it.")
		return ""
	}
	if !c.convertTriggers() {
		return ""
	}
	c.convertReplicas()
	c.convertStrategy()
	c.convertIntervals()
	c.convertRollout()
	c.checkTemplate()
	c.checkFields()
	c.to.Suspend = true
	c.comment("suspend", "Until KEDA's ScaledJob is paused and none of its Jobs runs.")
	manifest, err := c.write(template)
	if err != nil {
		c.skip("spec", "The ScaledJob can't be written: "+why(err)+".")
		return ""
	}
	return manifest
}

// checkTemplate notes what a ScaledJob refuses in the template of its Jobs.
func (c *conversion) checkTemplate() {
	template := &c.from.Spec.JobTargetRef
	if policy := template.Template.Spec.RestartPolicy; policy == "Always" {
		c.skip("spec.jobTargetRef.template.spec.restartPolicy", "No Job accepts Always. Write Never or OnFailure.")
	}
	if template.ManualSelector || len(template.Selector.Content) > 0 {
		c.skip("spec.jobTargetRef.selector", "All Jobs would have the same selector, and count each other's Pods. Remove selector and "+
			"manualSelector.")
	}
}

// checkFields notes fields that this package does not know, of a newer KEDA or with a typing error.
func (c *conversion) checkFields() {
	for _, path := range []string{"spec", "spec.rollout", "spec.scalingStrategy"} {
		node := child(c.object.node, splitPath(path)...)
		for _, key := range keysOf(node) {
			if !slices.Contains(knownFields[path], key) {
				c.skip(path+"."+key, "This field is not known. If KEDA knows it, see whether you need it.")
			}
		}
	}
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
