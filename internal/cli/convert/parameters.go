// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is the value of a parameter, or where it is.
type value struct {
	// text is the value, unless it is in a Secret.
	text string
	// secret is the key of a Secret that has the value. foreign is true if that is not in the namespace of the ScaledJob.
	secret  *keyRef
	foreign bool
	// origin says where the value comes from; empty if it is in the trigger itself.
	origin string
	// missing says why the value is not known.
	missing string
}

// isSet reports whether there is a value, known or not.
func (v value) isSet() bool { return v.text != "" || v.secret != nil || v.missing != "" }

// parameters are those of a trigger.
type parameters struct {
	c *conversion
	// path is that of the trigger.
	path     string
	metadata map[string]string
	auth     map[string]value
	// used are the keys of the metadata that the type of the trigger has.
	used []string
}

// The places where KEDA looks for a parameter.
type place int

const (
	inMetadata place = iota
	inAuth
	inEnvironment
)

// The orders in which KEDA looks.
var (
	metadataFirst  = []place{inMetadata, inAuth, inEnvironment}
	environment2nd = []place{inMetadata, inEnvironment, inAuth}
)

// metadataOnly returns a parameter that only the metadata may have.
func (p *parameters) metadataOnly(name string) string {
	p.used = append(p.used, name)
	return strings.TrimSpace(p.metadata[name])
}

// get returns a parameter from the first place that has it, under any of its names.
func (p *parameters) get(order []place, names ...string) value {
	if slices.Contains(order, inMetadata) {
		p.know(names)
	}
	for _, from := range order {
		for _, name := range names {
			if found := p.at(from, name); found.isSet() {
				return found
			}
		}
	}
	return value{}
}

// know notes that the metadata may have these parameters, and the names of variables that have them.
func (p *parameters) know(names []string) {
	for _, name := range names {
		p.used = append(p.used, name, name+"FromEnv")
	}
}

func (p *parameters) at(from place, name string) value {
	switch from {
	case inAuth:
		return p.auth[name]
	case inEnvironment:
		variable := p.metadata[name+"FromEnv"]
		if variable == "" {
			return value{}
		}
		return p.c.environment(variable)
	default:
		return value{text: strings.TrimSpace(p.metadata[name])}
	}
}

// unknown returns the keys of the metadata that were not asked for.
func (p *parameters) unknown() []string {
	var keys []string
	for key := range p.metadata {
		if !slices.Contains(p.used, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// parametersOf collects the parameters of a trigger.
func (c *conversion) parametersOf(i int, from *trigger) *parameters {
	p := &parameters{c: c, path: index("spec.triggers", i), metadata: from.Metadata, auth: map[string]value{}}
	if from.AuthenticationRef == nil || from.AuthenticationRef.Name == "" {
		return p
	}
	kind, field := kindAuth, p.path+".authenticationRef"
	if from.AuthenticationRef.Kind == kindClusterAuth {
		kind = kindClusterAuth
	}
	namespace := c.object.Namespace
	if kind == kindClusterAuth {
		namespace = ""
	}
	object := c.given.find(kind, namespace, from.AuthenticationRef.Name)
	if object == nil {
		c.skip(field, fmt.Sprintf("The %s %s was not given. Add it to the input: the credentials and the TLS settings are in it.",
			kind, from.AuthenticationRef.Name))
		return p
	}
	c.given.used[object] = true
	c.readAuth(p, field, object)
	return p
}

// readAuth reads the parameters of a TriggerAuthentication.
func (c *conversion) readAuth(p *parameters, field string, object *Object) {
	var auth struct {
		Spec struct {
			SecretTargetRef    []target `yaml:"secretTargetRef"`
			ConfigMapTargetRef []target `yaml:"configMapTargetRef"`
			Env                []target `yaml:"env"`
		} `yaml:"spec"`
	}
	if err := object.node.Decode(&auth); err != nil {
		c.skip(field, object.String()+" is not one that KEDA accepts: "+why(err)+". Correct it.")
		return
	}
	foreign := object.Kind == kindClusterAuth
	for _, each := range auth.Spec.SecretTargetRef {
		p.auth[each.Parameter] = value{
			secret: &keyRef{each.Name, each.Key}, foreign: foreign, origin: fmt.Sprintf("key %s of Secret %s", each.Key, each.Name),
		}
	}
	for _, each := range auth.Spec.ConfigMapTargetRef {
		p.auth[each.Parameter] = c.inConfigMap(each.Name, each.Key, foreign)
	}
	for _, each := range auth.Spec.Env {
		p.auth[each.Parameter] = c.environmentOf(each.ContainerName, each.Name)
	}
	c.checkAuth(field, object)
}

// checkAuth notes the sources of credentials that this project does not have.
func (c *conversion) checkAuth(field string, object *Object) {
	for _, source := range keysOf(child(object.node, "spec")) {
		switch source {
		case "secretTargetRef", "configMapTargetRef", "env":
			continue
		case "podIdentity":
			if provider := child(object.node, "spec", source, "provider"); provider == nil || provider.Value == "none" || provider.Value == "" {
				continue
			}
		}
		c.skip(field, fmt.Sprintf("%s takes credentials from %s, and this project only from Secrets. Let a tool such as External Secrets "+
			"keep them in a Secret, and name that in spec.redis.", object, source))
	}
}

// inConfigMap returns a value of a ConfigMap.
func (c *conversion) inConfigMap(name, key string, foreign bool) value {
	origin := fmt.Sprintf("key %s of ConfigMap %s", key, name)
	if foreign {
		return value{origin: origin, missing: "ConfigMap " + name + " is in the namespace of KEDA"}
	}
	object := c.given.find(kindConfigMap, c.object.Namespace, name)
	if object == nil {
		return value{origin: origin, missing: "ConfigMap " + name + " was not given"}
	}
	if data := child(object.node, "data", key); data != nil {
		return value{text: strings.TrimSpace(data.Value), origin: origin}
	}
	return value{}
}

// inSecret returns what a key of a Secret says; false if the Secret was not given or has no such key.
func (c *conversion) inSecret(ref *keyRef) (text string, found bool) {
	object := c.given.find(kindSecret, c.object.Namespace, ref.Name)
	if object == nil {
		return "", false
	}
	if plain := child(object.node, "stringData", ref.Key); plain != nil {
		return strings.TrimSpace(plain.Value), true
	}
	encoded := child(object.node, "data", ref.Key)
	if encoded == nil {
		return "", false
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded.Value))
	return strings.TrimSpace(string(decoded)), err == nil
}

// environment returns the value of a variable of the container that KEDA reads.
func (c *conversion) environment(variable string) value {
	return c.environmentOf(c.from.Spec.EnvSourceContainerName, variable)
}

// environmentOf returns the value of a variable of a container; that of the first one if no name is given.
func (c *conversion) environmentOf(name, variable string) value {
	containers := c.from.Spec.JobTargetRef.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(each container) bool { return name == "" || each.Name == name })
	if i < 0 {
		return value{missing: "the template has no container " + name}
	}
	found := c.variable(&containers[i], variable, nil)
	if found.isSet() {
		found.origin = fmt.Sprintf("variable %s of container %s", variable, containers[i].Name)
		return found
	}
	return value{missing: fmt.Sprintf("container %s has no variable %s", containers[i].Name, variable)}
}

// variable looks for a variable under env, and then in what envFrom names. seen are the variables whose values refer to
// this one.
func (c *conversion) variable(in *container, name string, seen []string) value {
	if slices.Contains(seen, name) {
		return value{}
	}
	for _, each := range slices.Backward(in.Env) {
		switch {
		case each.Name != name:
		case each.ValueFrom == nil:
			return c.substitute(in, each.Value, append(seen, name))
		case each.ValueFrom.SecretKeyRef != nil:
			return value{secret: each.ValueFrom.SecretKeyRef}
		case each.ValueFrom.ConfigMapKeyRef != nil:
			return c.inConfigMap(each.ValueFrom.ConfigMapKeyRef.Name, each.ValueFrom.ConfigMapKeyRef.Key, false)
		default:
			return value{missing: "only a running Pod has variable " + name}
		}
	}
	return c.fromSources(in, name)
}

// fromSources looks for a variable in the ConfigMaps and Secrets that envFrom names. The last one that has it counts.
func (c *conversion) fromSources(in *container, name string) value {
	for _, source := range slices.Backward(in.EnvFrom) {
		key, has := strings.CutPrefix(name, source.Prefix)
		if !has {
			continue
		}
		if source.ConfigMapRef != nil {
			if found := c.inConfigMap(source.ConfigMapRef.Name, key, false); found.isSet() {
				return found
			}
		}
		if source.SecretRef == nil {
			continue
		}
		object := c.given.find(kindSecret, c.object.Namespace, source.SecretRef.Name)
		if object == nil {
			return value{missing: "Secret " + source.SecretRef.Name + " was not given"}
		}
		if hasKey(object.node, key) {
			return value{secret: &keyRef{source.SecretRef.Name, key}}
		}
	}
	return value{}
}

func hasKey(secret *yaml.Node, key string) bool {
	return child(secret, "data", key) != nil || child(secret, "stringData", key) != nil
}

// references are the references to other variables in a value.
var references = regexp.MustCompile(`\$\(([-._a-zA-Z0-9]+)\)`)

// substitute replaces the references to other variables in a value.
func (c *conversion) substitute(in *container, text string, seen []string) value {
	result := value{}
	result.text = references.ReplaceAllStringFunc(text, func(reference string) string {
		found := c.variable(in, references.FindStringSubmatch(reference)[1], seen)
		switch {
		case found.secret != nil && reference == text:
			result.secret = found.secret
		case found.secret != nil:
			result.missing = fmt.Sprintf("a part of it is in Secret %s", found.secret.Name)
		case found.missing != "":
			result.missing = found.missing
		case !found.isSet():
			return reference
		}
		return found.text
	})
	if result.missing != "" || result.secret != nil {
		result.text = ""
	}
	return result
}
