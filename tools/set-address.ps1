#Requires -RunAsAdministrator
<#
.SYNOPSIS
    Gives an adapter Root\SoftNdk an IP address, and waits until programs can use it.
.DESCRIPTION
    Not yet run on Windows. No DHCP server is on the adapter's wire, with a cable (set-cable.ps1) or without: the adapter has an address of
    169.254.0.0/16 after a while. The address stays with the adapter; once it is there, the script only waits. The adapter's network becomes Private:
    Windows takes a network without a gateway for Public, and shares nothing there.
.PARAMETER Address
    An address of a network that is none of this machine's: its first 24 bits for IPv4, 64 for IPv6.
.PARAMETER Name
    The adapter's name, as Get-NetAdapter shows it; if none is given, the first adapter.
.PARAMETER Port
    TCP ports on which consumers listen, for SMB 445 and 5445: Windows Firewall lets the machines of the adapter's networks in to them.
.EXAMPLE
    .\set-address.ps1 10.77.0.1 -Port 445, 5445
.EXAMPLE
    .\set-address.ps1 fd00:77::1
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory, Position = 0)]
    [ipaddress] $Address,
    [string] $Name = '*',
    [uint16[]] $Port
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

# Waits 30 s at most for what $Look finds, and gives that.
function Wait-For([string] $What, [scriptblock] $Look) {
    $deadline = (Get-Date).AddSeconds(30)
    $found = & $Look
    if (-not $found) {
        Write-Host "Waiting for $What."
    }
    while (-not $found) {
        if ((Get-Date) -gt $deadline) {
            throw "30 s were not enough for $What."
        }
        Start-Sleep -Milliseconds 500
        $found = & $Look
    }
    $found
}

function Get-Held {
    Get-NetIPAddress -InterfaceIndex $adapter.ifIndex -ErrorAction SilentlyContinue | Where-Object { $_.IPAddress -eq "$Address" }
}

# It may be restarting: after Set-NetAdapterAdvancedProperty, for one.
$adapter = Wait-For 'the adapter Root\SoftNdk to run (see install.ps1)' {
    $devices = @(Get-PnpDevice -PresentOnly | Where-Object { $_.HardwareID -contains 'Root\SoftNdk' } | ForEach-Object { $_.InstanceId })
    Get-NetAdapter | Where-Object { $_.PnPDeviceID -in $devices -and $_.Name -like $Name -and $_.Status -eq 'Up' } | Select-Object -First 1
}
if ($Address.AddressFamily -eq 'InterNetwork') { $family = 'IPv4'; $prefix = 24 } else { $family = 'IPv6'; $prefix = 64 }
$null = Wait-For "$family on $($adapter.Name)" {
    Get-NetIPInterface -InterfaceIndex $adapter.ifIndex -AddressFamily $family -ErrorAction SilentlyContinue
}
if (-not (Get-Held)) {
    New-NetIPAddress -InterfaceIndex $adapter.ifIndex -IPAddress "$Address" -PrefixLength $prefix | Out-Null
}
# Until then TCP/IP looks for another machine that has it, and the driver does not take it.
$null = Wait-For "$Address to be preferred" {
    Get-Held | Where-Object { $_.AddressState -eq 'Preferred' }
}
try {
    $network = Wait-For "Windows to name the network of $($adapter.Name)" {
        Get-NetConnectionProfile -InterfaceIndex $adapter.ifIndex -ErrorAction SilentlyContinue
    }
    if ($network.NetworkCategory -eq 'Public') {
        Set-NetConnectionProfile -InterfaceIndex $adapter.ifIndex -NetworkCategory Private
    }
} catch {
    Write-Warning "The network of $($adapter.Name) stays as it is: $_"
}
if ($Port) {
    $rule = "SoftNDK consumers, $($adapter.Name)"
    Remove-NetFirewallRule -DisplayName $rule -ErrorAction SilentlyContinue
    # Without a program: the sockets are the system process's.
    $null = New-NetFirewallRule -DisplayName $rule -Group SoftNDK -Direction Inbound -Protocol TCP -LocalPort $Port `
        -InterfaceAlias $adapter.Name -RemoteAddress LocalSubnet -Action Allow
}
Write-Output "$($adapter.Name) has $Address."
