#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Lets a virtual machine load test-signed drivers, and trust the certificate of this one.
.DESCRIPTION
    Not yet run on Windows. For machines that may be lost: it turns test signing on, and trusts a certificate whose key lies on the
    machine that built the driver. Restart afterwards. To undo:
        bcdedit /set testsigning off
        Get-ChildItem Cert:\LocalMachine\Root, Cert:\LocalMachine\TrustedPublisher |
            Where-Object Subject -eq 'CN=WDRLocalTestCert' | Remove-Item
.PARAMETER Package
    The folder that `cargo make` wrote: softndk.inf, softndk.sys, softndk.cat and WDRLocalTestCert.cer.
.EXAMPLE
    .\prepare-vm.ps1 -Package .\softndk_package
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory)]
    [string] $Package
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$certificate = Join-Path $Package 'WDRLocalTestCert.cer'
if (-not (Test-Path $certificate)) {
    throw "$certificate is not there: is $Package what 'cargo make' wrote?"
}

try {
    $secureBoot = Confirm-SecureBootUEFI
} catch [System.PlatformNotSupportedException] {
    # No UEFI, so no Secure Boot.
    $secureBoot = $false
}
if ($secureBoot) {
    throw 'Secure Boot is on, and allows no test signing. Turn it off in the settings of the virtual machine.'
}

bcdedit.exe /set testsigning on
if ($LASTEXITCODE -ne 0) {
    throw "bcdedit ended with $LASTEXITCODE"
}

# Not by Import-Certificate: a new machine may have no TrustedPublisher yet, which Open creates.
$trusted = New-Object System.Security.Cryptography.X509Certificates.X509Certificate2 (Resolve-Path $certificate).ProviderPath
foreach ($name in 'Root', 'TrustedPublisher') {
    $store = New-Object System.Security.Cryptography.X509Certificates.X509Store $name, 'LocalMachine'
    $store.Open('ReadWrite')
    $store.Add($trusted)
    $store.Close()
}
Write-Output 'Test signing is on, and the certificate is trusted. Restart, then run install.ps1.'
