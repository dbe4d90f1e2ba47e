// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// RedisMode is the kind of Redis deployment.
// +kubebuilder:validation:Enum=Standalone;Sentinel;Cluster
type RedisMode string

// The modes.
const (
	// RedisStandalone is one server, or a service that behaves like one server at a single address.
	RedisStandalone RedisMode = "Standalone"
	// RedisSentinel is one master at a time, whose address sentinels know.
	RedisSentinel RedisMode = "Sentinel"
	// RedisCluster is a Redis Cluster: several masters that share the keys.
	RedisCluster RedisMode = "Cluster"
)

// RedisTLSMode says whether connections to Redis are encrypted.
// +kubebuilder:validation:Enum=Enabled;Disabled
type RedisTLSMode string

const (
	// RedisTLSEnabled encrypts the connections. It is the default where tls is set.
	RedisTLSEnabled RedisTLSMode = "Enabled"
	// RedisTLSDisabled sends everything in clear text, also the password.
	RedisTLSDisabled RedisTLSMode = "Disabled"
)

// The default keys of a Secret. Those for TLS are the keys of Secrets of the type kubernetes.io/tls.
const (
	DefaultPasswordKey    = "password"
	DefaultCAKey          = "ca.crt"
	DefaultCertificateKey = "tls.crt"
	DefaultPrivateKeyKey  = "tls.key"
)

// Redis specifies a Redis server or deployment, the database, the credentials and TLS.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode != 'Standalone') || size(self.addresses) == 1",message="mode Standalone takes exactly one address",fieldPath=".addresses"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Sentinel') == has(self.sentinel)",message="mode Sentinel needs sentinel.masterName, and no other mode takes sentinel"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Cluster' || !has(self.database) || self.database == 0",message="mode Cluster takes no other database than 0",fieldPath=".database"
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || has(self.tls)",message="with auth, tls is required: write tls: {mode: Enabled}, or tls: {mode: Disabled} to send the password in clear text",fieldPath=".tls",reason=FieldValueRequired
type Redis struct {
	// mode is the kind of Redis deployment. Standalone (default) is one server at a single address. Sentinel is one
	// master at a time, which sentinels choose. Cluster is a Redis Cluster.
	// +optional
	// +kubebuilder:default=Standalone
	Mode RedisMode `json:"mode,omitempty"`

	// addresses has each address as host:port, with IPv6 addresses in brackets and without a zone, without a scheme or
	// path. Standalone: exactly one, that of the server. Sentinel: those of the sentinels. Cluster: those of some nodes,
	// which know the others.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=261
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9._])?|\\\\[[0-9A-Fa-f:.]+\\\\]):[0-9]{1,5}$') && int(self.substring(self.lastIndexOf(':') + 1)) >= 1 && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",message="must be host:port, such as redis.example.svc:6379, without a scheme or path"
	Addresses []string `json:"addresses"`

	// database is the number of the database that contains the keys. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Database int32 `json:"database,omitempty"`

	// auth specifies the credentials for the Redis servers; sentinels have their own in sentinel.auth. It requires tls.
	// Without auth the operator does not authenticate, and Redis treats it as the user default.
	// +optional
	Auth *RedisAuth `json:"auth,omitempty"`

	// tls says whether the connections to the Redis servers are encrypted, and how; sentinels have their own settings in
	// sentinel.tls. Required with auth. Without auth and tls the connections are not encrypted. Write mode: Enabled for a
	// server with a certificate from an authority that the operator's system trusts.
	// +optional
	TLS *RedisTLS `json:"tls,omitempty"`

	// sentinel says how to ask the sentinels for the master. Required with mode Sentinel.
	// +optional
	Sentinel *RedisSentinelAccess `json:"sentinel,omitempty"`
}

// RedisSentinelAccess specifies the master to ask sentinels for, and the credentials and TLS for that. auth and tls of
// the Redis server do not apply to sentinels.
//
// +kubebuilder:validation:XValidation:rule="!has(self.auth) || has(self.tls)",message="with auth, tls is required: write tls: {mode: Enabled}, or tls: {mode: Disabled} to send the password in clear text",fieldPath=".tls",reason=FieldValueRequired
type RedisSentinelAccess struct {
	// masterName is the name that the sentinels have for the master, as in sentinel monitor.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	MasterName string `json:"masterName"`

	// auth specifies the credentials for the sentinels. It requires tls. Without auth the operator does not authenticate
	// to them.
	// +optional
	Auth *RedisAuth `json:"auth,omitempty"`

	// tls says whether the connections to the sentinels are encrypted, and how. Required with auth. Without auth and tls
	// the connections are not encrypted.
	// +optional
	TLS *RedisTLS `json:"tls,omitempty"`
}

// RedisAuth specifies the credentials.
//
// +kubebuilder:validation:XValidation:rule="has(self.username) || has(self.passwordSecretRef)",message="a username or a passwordSecretRef is required"
type RedisAuth struct {
	// username is the ACL user. Default: the user named default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[^\s\x00-\x1f\x7f]+$`
	Username string `json:"username,omitempty"`

	// passwordSecretRef references the password. The default key is password.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`
}

// RedisTLS says whether connections are encrypted, how the operator verifies the server, and with which certificate it
// authenticates itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Disabled' || !(has(self.caSecretRef) || has(self.certSecretRef) || has(self.keySecretRef) || has(self.serverName) || (has(self.insecureSkipVerify) && self.insecureSkipVerify))",message="mode Disabled takes no other field of tls: remove the others, or write mode: Enabled"
// +kubebuilder:validation:XValidation:rule="has(self.certSecretRef) == has(self.keySecretRef)",message="certSecretRef and keySecretRef go together: give both or neither"
type RedisTLS struct {
	// mode is Enabled (default) or Disabled. With Disabled everything is sent in clear text, also the password, and no
	// other field of tls may be set.
	// +optional
	Mode RedisTLSMode `json:"mode,omitempty"`

	// caSecretRef references the PEM certificates of the authorities that may sign the server's certificate, instead of
	// the authorities that the operator's system trusts. The default key is ca.crt.
	// +optional
	CASecretRef *SecretKeyReference `json:"caSecretRef,omitempty"`

	// certSecretRef references the operator's client certificate in PEM. The default key is tls.crt.
	// +optional
	CertSecretRef *SecretKeyReference `json:"certSecretRef,omitempty"`

	// keySecretRef references the private key of the client certificate in PEM. The default key is tls.key.
	// +optional
	KeySecretRef *SecretKeyReference `json:"keySecretRef,omitempty"`

	// serverName is the name that the server's certificate must contain; it is also sent as SNI. Default: the host of
	// the address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?$`
	ServerName string `json:"serverName,omitempty"`

	// insecureSkipVerify accepts any server certificate, so that anybody in the network path can read and change the
	// traffic, including the password. It works only if the operator was started with --allow-insecure-redis-tls.
	// Default false.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// SecretKeyReference references a key of a Secret in the namespace of the ScaledJob.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key is the key in the Secret. The default depends on the field.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}
