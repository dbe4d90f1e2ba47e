// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	scaledjobv1 "miracle.dev/scaledjob-operator/api/v1"
)

// server returns the Redis server of a trigger.
func (c *conversion) server(p *parameters, mode scaledjobv1.RedisMode) *scaledjobv1.Redis {
	redis := &scaledjobv1.Redis{Mode: mode, Addresses: c.addresses(p, mode)}
	if mode != scaledjobv1.RedisCluster {
		redis.Database = c.database(p)
	}
	encrypted := c.encryption(p, "redis.tls")
	redis.Auth = c.login(p, environment2nd, "redis.auth", "username", "password")
	redis.TLS = tlsOf(redis.Auth, encrypted)
	if mode == scaledjobv1.RedisSentinel {
		redis.Sentinel = c.sentinels(p, encrypted)
	}
	return redis
}

// sentinels returns how to ask the sentinels. KEDA uses the TLS settings of the servers for them too.
func (c *conversion) sentinels(p *parameters, encrypted *scaledjobv1.RedisTLS) *scaledjobv1.RedisSentinelAccess {
	master := c.plain(p.get(metadataFirst, "sentinelMaster"), p.path, "sentinelMaster", "redis.sentinel.masterName")
	if master == "" {
		c.skip(p.path+".metadata.sentinelMaster", "The name of the master is missing. Write it in spec.redis.sentinel.masterName.")
	}
	access := &scaledjobv1.RedisSentinelAccess{
		MasterName: master, Auth: c.login(p, metadataFirst, "redis.sentinel.auth", "sentinelUsername", "sentinelPassword"),
	}
	access.TLS = tlsOf(access.Auth, encrypted)
	return access
}

// tlsOf returns the TLS settings with these credentials: a ScaledJob with credentials has to say whether it uses TLS.
func tlsOf(auth *scaledjobv1.RedisAuth, encrypted *scaledjobv1.RedisTLS) *scaledjobv1.RedisTLS {
	if encrypted == nil && auth != nil {
		return &scaledjobv1.RedisTLS{Mode: scaledjobv1.RedisTLSDisabled}
	}
	return encrypted.DeepCopy()
}

// validAddress is what the API server accepts as an address.
var validAddress = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9._])?|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`)

// addresses returns the addresses of a trigger.
func (c *conversion) addresses(p *parameters, mode scaledjobv1.RedisMode) []string {
	const path = "redis.addresses"
	list := c.list(p, p.get(metadataFirst, "address", "addresses"), "address", path)
	hosts := c.list(p, p.get(environment2nd, "host", "hosts"), "host", path)
	ports := c.list(p, p.get(environment2nd, "port", "ports"), "port", path)
	list = append(list, joined(hosts, ports)...)
	if len(list) == 0 {
		c.skip(p.path+".metadata", "There is no address of the Redis server, or it is not known. Write it in spec.redis.addresses as "+
			"host:port.")
		return []string{}
	}
	if mode == scaledjobv1.RedisStandalone && len(list) > 1 {
		c.comment(path, "KEDA uses only the first of several addresses.")
		list = list[:1]
	}
	for i, address := range list {
		switch {
		case !validAddress.MatchString(address):
			// It may hold a password.
			c.skip(p.path+".metadata", fmt.Sprintf("Address %d is not of the form host:port. Write it in spec.redis.addresses.", i+1))
			return []string{}
		case !strings.Contains(address, "."):
			c.comment(path, "A name without a dot is looked up in the namespace of the operator. Write NAME.NAMESPACE.svc:PORT.")
		}
	}
	return list
}

// list returns the parts of a value that commas separate.
func (c *conversion) list(p *parameters, v value, name, path string) []string {
	var parts []string
	for part := range strings.SplitSeq(c.plain(v, p.path, name, path), ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// joined returns each host with its port; nothing if their numbers differ.
func joined(hosts, ports []string) []string {
	if len(hosts) != len(ports) {
		return nil
	}
	var addresses []string
	for i, host := range hosts {
		if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
			host = "[" + host + "]"
		}
		addresses = append(addresses, host+":"+ports[i])
	}
	return addresses
}

func (c *conversion) database(p *parameters) int32 {
	text := p.metadataOnly("databaseIndex")
	if text == "" {
		return 0
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 0 {
		c.skip(p.path+".metadata.databaseIndex", "It is not a number of a database. Write that in spec.redis.database.")
		return 0
	}
	return int32(number)
}

// plain returns a value that is not confidential. If it is in a Secret that was given, it is read there.
func (c *conversion) plain(v value, trigger, name, path string) string {
	if !v.isSet() {
		return ""
	}
	text := v.text
	if v.secret != nil && !v.foreign {
		text, _ = c.inSecret(v.secret)
	}
	switch {
	case text != "" && v.origin != "":
		c.comment(path, "From "+v.origin+". The operator does not read it there.")
	case text == "":
		c.skip(trigger+"."+name, fmt.Sprintf("Its value is not known: %s. Add that to the input, or write the value in spec.%s.",
			unknown(v), path))
	}
	return text
}

// unknown says why a value is not known.
func unknown(v value) string {
	switch {
	case v.missing != "":
		return v.missing
	case v.foreign:
		return "Secret " + v.secret.Name + " is in the namespace of KEDA"
	}
	return fmt.Sprintf("key %s of Secret %s was not given", v.secret.Key, v.secret.Name)
}

// login returns the credentials, which KEDA looks for in this order; nil if there are none.
func (c *conversion) login(p *parameters, order []place, path, username, password string) *scaledjobv1.RedisAuth {
	auth := scaledjobv1.RedisAuth{
		Username:          c.plain(p.get(order, username), p.path, username, path+".username"),
		PasswordSecretRef: c.secret(p.get(order, password), p.path+"."+password, path+".passwordSecretRef", scaledjobv1.DefaultPasswordKey),
	}
	if auth == (scaledjobv1.RedisAuth{}) {
		return nil
	}
	return &auth
}

// secret returns the reference to a confidential value; nil if there is none. What is in clear text is not repeated:
// the reference is then to a Secret that the user has to make.
func (c *conversion) secret(v value, field, path, key string) *scaledjobv1.SecretKeyReference {
	switch {
	case !v.isSet():
		return nil
	case v.missing != "":
		c.skip(field, fmt.Sprintf("It is not known where it is: %s. Write the name of a Secret in spec.%s.", v.missing, path))
		return nil
	case v.secret == nil:
		name := c.object.Name + "-redis"
		c.skip(field, fmt.Sprintf("It is in clear text, which is not repeated here. Store it under the key %s of a Secret, such as %s, "+
			"which spec.%s names.", key, name, path))
		c.comment(path, "This Secret does not exist yet: KEDA has the value in clear text.")
		return &scaledjobv1.SecretKeyReference{Name: name, Key: key}
	case v.foreign:
		c.skip(field, fmt.Sprintf("It is in Secret %s in the namespace of KEDA. Copy that to the namespace of the ScaledJob.", v.secret.Name))
		c.comment(path, "The Secret has to be in the namespace of the ScaledJob.")
	}
	return &scaledjobv1.SecretKeyReference{Name: v.secret.Name, Key: v.secret.Key}
}

// encryption returns the TLS settings; nil without TLS.
func (c *conversion) encryption(p *parameters, path string) *scaledjobv1.RedisTLS {
	with := &scaledjobv1.RedisTLS{
		Mode:          scaledjobv1.RedisTLSEnabled,
		CASecretRef:   c.secret(p.get([]place{inAuth}, "ca"), p.path+".ca", path+".caSecretRef", scaledjobv1.DefaultCAKey),
		CertSecretRef: c.secret(p.get([]place{inAuth}, "Cert", "cert"), p.path+".cert", path+".certSecretRef", scaledjobv1.DefaultCertificateKey),
		KeySecretRef:  c.secret(p.get([]place{inAuth}, "key"), p.path+".key", path+".keySecretRef", scaledjobv1.DefaultPrivateKeyKey),
	}
	skipVerify := isTrue(p.metadataOnly("unsafeSsl"))
	if !c.isEncrypted(p, path) {
		return nil
	}
	if p.get([]place{inAuth}, "keyPassword").isSet() {
		c.skip(p.path+".keyPassword", "The operator reads no encrypted keys. Store the key unencrypted: a password in the same Secret protects nothing.")
	}
	if with.CASecretRef != nil {
		c.comment(path+".caSecretRef", "KEDA trusts this authority and those of its system, the operator only this one.")
	}
	if skipVerify {
		with.InsecureSkipVerify = true
		c.comment(path+".insecureSkipVerify", "This works only if the operator was started with --allow-insecure-redis-tls.")
	}
	return with
}

// isEncrypted reports whether the trigger uses TLS.
func (c *conversion) isEncrypted(p *parameters, path string) bool {
	asked, enable := p.get([]place{inAuth}, "tls"), p.metadataOnly("enableTLS")
	if enable != "" && asked.isSet() {
		c.skip(p.path+".metadata.enableTLS", "KEDA refuses enableTLS together with tls in a TriggerAuthentication. See whether spec."+path+" is right.")
	}
	if isTrue(enable) {
		return true
	}
	if !asked.isSet() {
		return false
	}
	text := c.plain(asked, p.path, "tls", path+".mode")
	return text == "" || text == "enable" // Without TLS, what is unknown would send a password in clear text.
}

func isTrue(text string) bool {
	is, err := strconv.ParseBool(text)
	return err == nil && is
}
