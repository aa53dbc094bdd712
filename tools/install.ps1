#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Installs softndk.sys, and creates the adapter Root\SoftNdk if there is none.
.DESCRIPTION
    Not yet run on Windows. A device without hardware has to be created: devgen.exe of the WDK (22H2 or later) does it. On a machine
    without the WDK, copy devgen.exe there from Tools\<version>\x64 of the kit.
.PARAMETER Package
    The folder that `cargo make` wrote.
.PARAMETER Devgen
    Where devgen.exe is, if not on the path.
.EXAMPLE
    .\install.ps1 -Package .\softndk_package -Devgen .\devgen.exe
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory)]
    [string] $Package,
    [string] $Devgen = 'devgen.exe'
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$hardwareId = 'Root\SoftNdk'

# Of any class: a device has none before a driver is installed on it.
function Get-Adapter {
    Get-PnpDevice -PresentOnly | Where-Object { $_.HardwareID -contains $hardwareId }
}

$inf = Join-Path $Package 'softndk.inf'
if (-not (Test-Path $inf)) {
    throw "$inf is not there: is $Package what 'cargo make' wrote?"
}
if (-not (Get-Command $Devgen -ErrorAction SilentlyContinue)) {
    throw "$Devgen is not there: name the one of the WDK by -Devgen."
}

pnputil.exe /add-driver $inf /install
# 259, ERROR_NO_MORE_ITEMS: it is in the driver store, and no device there wants it.
# 3010, ERROR_SUCCESS_REBOOT_REQUIRED.
if ($LASTEXITCODE -notin 0, 259, 3010) {
    throw "pnputil ended with $LASTEXITCODE. See $env:SystemRoot\INF\setupapi.dev.log."
}
if ($LASTEXITCODE -eq 3010) {
    Write-Warning 'Windows has to be restarted before this driver is the one that runs.'
}

if (-not (Get-Adapter)) {
    & $Devgen /add /bus ROOT /hardwareid $hardwareId
    if ($LASTEXITCODE -ne 0) {
        throw "devgen ended with $LASTEXITCODE"
    }
}

# Plug and Play installs the driver on the new device by itself.
Write-Output 'Waiting for the device to start.'
$deadline = (Get-Date).AddSeconds(60)
while (-not (Get-Adapter | Where-Object { $_.Status -eq 'OK' })) {
    if ((Get-Date) -gt $deadline) {
        Get-Adapter | Format-List InstanceId, Status, Problem | Out-String | Write-Output
        throw "The adapter does not start. See $env:SystemRoot\INF\setupapi.dev.log."
    }
    Start-Sleep -Seconds 1
}
# NDIS and TCP/IP come some time after that.
Write-Output 'Waiting for TCP/IP on the adapter.'
$deadline = (Get-Date).AddSeconds(30)
$instances = @(Get-Adapter | ForEach-Object { $_.InstanceId })
while (-not (Get-NetAdapter | Where-Object { $_.PnPDeviceID -in $instances } |
            ForEach-Object { Get-NetIPInterface -InterfaceIndex $_.ifIndex -ErrorAction SilentlyContinue })) {
    if ((Get-Date) -gt $deadline) {
        Get-NetAdapter | Format-Table Name, InterfaceDescription, Status | Out-String | Write-Output
        throw 'TCP/IP has no interface for the adapter after 30 s.'
    }
    Start-Sleep -Seconds 1
}
Get-NetAdapterRdma | Format-Table Name, InterfaceDescription, Enabled
# Not what pnputil ended with.
exit 0
