// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// object is an object of the schema with its path.
type object struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// writeObjects writes a section for the object and for each object in it, in the order of their depth. Objects with the
// same fields share a section, which is that of the first one.
func writeObjects(text *strings.Builder, first object) {
	sections := map[string]string{}
	found := []object{first}
	for i := 0; i < len(found); i++ {
		if _, isKnown := sections[shape(found[i].schema)]; isKnown {
			found = slices.Delete(found, i, i+1)
			i--
			continue
		}
		sections[shape(found[i].schema)] = found[i].path
		found = append(found, children(found[i])...)
	}
	for _, each := range found {
		writeObject(text, each, sections)
	}
}

// children are the objects in an object, but for those that Kubernetes documents.
func children(of object) []object {
	var list []object
	for _, name := range slices.Sorted(maps.Keys(of.schema.Properties)) {
		field := of.schema.Properties[name]
		if name == "jobTemplate" || name == "conditions" {
			continue
		}
		if field.Type == "object" {
			list = append(list, object{of.path + "." + name, field})
		} else if items := itemsOf(field); items != nil && items.Type == "object" {
			list = append(list, object{of.path + "." + name + "[]", *items})
		}
	}
	return list
}

// shape distinguishes objects with different fields or rules.
func shape(schema apiextensionsv1.JSONSchemaProps) string {
	schema.Description, schema.Default = "", nil
	content, err := json.Marshal(schema)
	if err != nil {
		return ""
	}
	return string(content)
}

// writeObject writes the section of an object.
func writeObject(text *strings.Builder, of object, sections map[string]string) {
	name := of.path[strings.LastIndex(of.path, ".")+1:]
	fmt.Fprintf(text, "## %s\n\n%s\n\n", of.path, wrapped(sentence(name, of.schema.Description), ""))
	names := slices.Sorted(maps.Keys(of.schema.Properties))
	// What must be set comes first.
	slices.SortStableFunc(names, func(a, b string) int {
		return order(slices.Contains(of.schema.Required, b)) - order(slices.Contains(of.schema.Required, a))
	})
	links := map[string]string{}
	for _, child := range children(of) {
		section := sections[shape(child.schema)]
		name := strings.TrimSuffix(child.path[strings.LastIndex(child.path, ".")+1:], "[]")
		links[name] = "[" + section + "](#" + strings.ToLower(regexp.MustCompile(`\W`).ReplaceAllString(section, "")) + ")"
	}
	for _, name := range names {
		writeField(text, name, of.schema.Properties[name], slices.Contains(of.schema.Required, name), links[name])
	}
	text.WriteString("\n")
	writeRules(text, "The API server also checks:\n\n", of.schema.XValidations)
}

func order(first bool) int {
	if first {
		return 1
	}
	return 0
}

// stated is the end of a description that says what the list of traits says already.
var stated = regexp.MustCompile(` (?:At least \d+|\d+ to \d+)?(?:(?:, d|\bD)efault:? ([\w.]+))?\.( By default|$)`)

// writeField writes the item of a field: its traits, what it means, and its rules.
func writeField(text *strings.Builder, name string, field apiextensionsv1.JSONSchemaProps, required bool, link string) {
	meaning := stated.ReplaceAllString(sentence(name, field.Description), "$2")
	fmt.Fprintf(text, "- **`%s`** (%s)\\\n%s\n", name, strings.Join(traits(field, required, link), ", "), wrapped(meaning, "  "))
	if link != "" && field.Type == "object" {
		return // The section that it leads to has the rules.
	}
	for _, rule := range rulesOf(field) {
		text.WriteString(wrapped("- "+rule, "  ") + "\n")
	}
}

// sentence returns a description without the name of the field at its beginning.
func sentence(name, description string) string {
	rest, found := strings.CutPrefix(strings.ReplaceAll(description, "\n", " "), name+" ")
	if !found {
		return description
	}
	for _, verb := range []string{"is ", "are "} {
		rest = strings.TrimPrefix(rest, verb)
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// traits are the type of a field and its bounds.
func traits(field apiextensionsv1.JSONSchemaProps, required bool, link string) []string {
	list := []string{typeOf(field)}
	if link != "" {
		list[0] += " with the fields of " + link
	}
	if required {
		list = append(list, "required")
	}
	if values := quoted(field.Enum); values != "" {
		list[0] = "one of " + values
	}
	list = append(list, bounds(field)...)
	if value := defaultOf(field); value != "" {
		list = append(list, "default `"+value+"`")
	}
	return list
}

// defaultOf is the default in the schema, or the one that the description names.
func defaultOf(field apiextensionsv1.JSONSchemaProps) string {
	if field.Default != nil && string(field.Default.Raw) != "{}" {
		return plain(field.Default.Raw)
	}
	match := regexp.MustCompile(`(\w+) \(default\)|\b[Dd]efault:? (\w+)\.$`).FindStringSubmatch(field.Description)
	if match == nil {
		return ""
	}
	return match[1] + match[2]
}

func typeOf(field apiextensionsv1.JSONSchemaProps) string {
	if items := itemsOf(field); items != nil {
		return "list of " + items.Type + "s"
	}
	if field.Format == "date-time" {
		return "time"
	}
	return field.Type
}

func itemsOf(field apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if field.Items == nil {
		return nil
	}
	return field.Items.Schema
}

// bounds are the limits of numbers, lists and texts in words.
func bounds(field apiextensionsv1.JSONSchemaProps) []string {
	var list []string
	for _, each := range []struct {
		least, most *int64
		unit        string
	}{
		{whole(field.Minimum), whole(field.Maximum), ""},
		{field.MinItems, field.MaxItems, " items"},
		{field.MinLength, field.MaxLength, " characters"},
	} {
		switch {
		case each.least != nil && each.most != nil:
			list = append(list, fmt.Sprintf("%d to %d%s", *each.least, *each.most, each.unit))
		case each.least != nil:
			list = append(list, fmt.Sprintf("at least %d%s", *each.least, each.unit))
		case each.most != nil:
			list = append(list, fmt.Sprintf("at most %d%s", *each.most, each.unit))
		}
	}
	return list
}

// whole is a bound, unless it is only that of the type.
func whole(value *float64) *int64 {
	if value == nil || *value >= math.MaxInt32 || *value <= math.MinInt32 {
		return nil
	}
	converted := int64(*value)
	return &converted
}

func quoted(values []apiextensionsv1.JSON) string {
	var list []string
	for _, value := range values {
		list = append(list, "`"+plain(value.Raw)+"`")
	}
	return strings.Join(list, ", ")
}

// plain is a value without the quotes of JSON.
func plain(raw []byte) string {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return string(raw)
	}
	return fmt.Sprint(value)
}

// rulesOf are the messages with which the API server rejects a field or an item of it.
func rulesOf(field apiextensionsv1.JSONSchemaProps) []string {
	var messages []string
	for _, rule := range field.XValidations {
		messages = append(messages, rule.Message)
	}
	if items := itemsOf(field); items != nil && items.Type != "object" { // The others have a section.
		messages = append(messages, rulesOf(*items)...)
	}
	if field.Pattern != "" {
		messages = append(messages, "must match `"+field.Pattern+"`")
	}
	return slices.Compact(messages)
}

func writeRules(text *strings.Builder, heading string, rules apiextensionsv1.ValidationRules) {
	if len(rules) == 0 {
		return
	}
	text.WriteString(heading)
	for _, rule := range rules {
		text.WriteString(wrapped("- "+rule.Message, "") + "\n")
	}
	text.WriteString("\n")
}

// wrapped breaks a text into lines of at most 120 characters, each with the indentation; those of an item with more.
func wrapped(text, indentation string) string {
	const width = 120
	var lines []string
	line := indentation
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) >= width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = indentation
			if strings.HasPrefix(text, "- ") {
				line += "  "
			}
		}
		line += word + " "
	}
	return strings.Join(append(lines, strings.TrimRight(line, " ")), "\n")
}
